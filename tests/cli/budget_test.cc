#include "cli/budget.h"

#include <doctest/doctest.h>

#include <string>

#include "graph/error.h"

namespace cairn {
namespace {

std::string refusal(const std::string& text) {
  try {
    parse_budget(text, {});
  } catch (const InputError& error) {
    return error.what();
  }
  return "accepted";
}

std::int64_t bytes_of(const std::string& text, std::int64_t keep_all_peak_bytes) {
  return budget_bytes(parse_budget(text, {}), keep_all_peak_bytes);
}

TEST_CASE("a budget in bytes is read as sizes are everywhere") {
  CHECK(bytes_of("12GiB", 1) == 12'884'901'888);
  CHECK(bytes_of("8000MB", 1) == 8'000'000'000);
  CHECK(bytes_of("1.5GiB", 1) == 1'610'612'736);
  CHECK(bytes_of("12884901888", 1) == 12'884'901'888);
}

TEST_CASE("a share is of the peak of keeping everything, rounded down") {
  CHECK(bytes_of("60%", 1'000) == 600);
  CHECK(bytes_of("60 %", 1'000) == 600);
  CHECK(bytes_of("100%", 12'345) == 12'345);
  CHECK(bytes_of("62.5%", 1'001) == 625);                                      // 625.625
  CHECK(bytes_of("0.0001%", 9'223'372'036'854'775'807) == 9'223'372'036'854);  // a millionth
  CHECK(bytes_of("99.9999%", 9'223'372'036'854'775'807) == 9'223'362'813'482'738'952);
}

TEST_CASE("a GPU's budget is what it leaves for tensors") {
  const BudgetRequest request = parse_budget("gpu:rtx4090", {});
  CHECK(request.bytes == capacity_bytes(*request.gpu));
  CHECK(request.gpu->id == "rtx4090");
}

TEST_CASE("what is no budget says what one is") {
  const std::string expected =
      "expected bytes such as 12GiB or 8000MB, a share of the peak of keeping everything such as "
      "60%, or a GPU such as gpu:rtx4090";
  CHECK(refusal("") == "--budget '': " + expected);
  CHECK(refusal("much") == "--budget 'much': " + expected);
  CHECK(refusal("rtx4090") == "--budget 'rtx4090': " + expected + "; did you mean 'gpu:rtx4090'?");
  CHECK(refusal("12") == "--budget '12': " + expected + "; did you mean '12GiB'?");
  CHECK(refusal("0") == "--budget '0': expected a budget above 0; " + expected);
  CHECK(refusal("-3GiB") == "--budget: expected a size above zero, found '-3GiB'");
  CHECK(refusal("12G") ==
        "--budget: expected a size in B, KiB, MiB, GiB, TiB, kB, MB, GB, TB, found '12G'; write "
        "GiB (a power of 1024) or GB (a power of 1000)");
}

TEST_CASE("what is no share says why") {
  CHECK(refusal("%") == "--budget '%': expected a percentage such as 60% or 62.5%");
  CHECK(refusal("6e1%") == "--budget '6e1%': expected a percentage such as 60% or 62.5%");
  CHECK(refusal("60.%") == "--budget '60.%': expected a percentage such as 60% or 62.5%");
  CHECK(refusal("0%") == "--budget '0%': expected a share above 0 %");
  CHECK(refusal("0.00%") == "--budget '0.00%': expected a share above 0 %");
  CHECK(refusal("-60%") == "--budget '-60%': expected a share above 0 %");
  CHECK(refusal("1.23456%") == "--budget '1.23456%': expected at most 4 decimals");
  const std::string too_much =
      "expected at most 100%, the peak of keeping everything: no plan needs more";
  CHECK(refusal("100.1%") == "--budget '100.1%': " + too_much);
  CHECK(refusal("99999999999999999999%") == "--budget '99999999999999999999%': " + too_much);
}

TEST_CASE("an unknown GPU is refused as --gpu refuses it") {
  CHECK(refusal("gpu:") == "--budget 'gpu:': expected a GPU behind 'gpu:', such as gpu:rtx4090");
  CHECK(refusal("gpu:rtx4091").find("did you mean 'rtx4090'?") != std::string::npos);
}

}  // namespace
}  // namespace cairn
