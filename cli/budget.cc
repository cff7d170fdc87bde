#include "cli/budget.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <string_view>

#include "graph/error.h"
#include "models/gpu_catalogue.h"
#include "models/source_text.h"

namespace cairn {
namespace {

constexpr std::string_view kGpuPrefix = "gpu:";
constexpr std::int64_t kMillion = 1'000'000;
constexpr std::size_t kMostDecimals = 4;  // of a percentage, so that a millionth of it all is left
constexpr std::string_view kExpected =
    "expected bytes such as 12GiB or 8000MB, a share of the peak of keeping everything such as "
    "60%, or a GPU such as gpu:rtx4090";

bool are_digits(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

[[noreturn]] void refuse(const std::string& text, const std::string& why) {
  throw InputError(fmt::format("--budget {}: {}", in_quotes(text), why));
}

// "62.5" as 625,000.
std::int64_t parse_percent(const std::string& text) {
  std::string_view number = std::string_view(text).substr(0, text.size() - 1);
  while (number.ends_with(' ')) number.remove_suffix(1);
  const std::size_t dot = std::min(number.find('.'), number.size());
  const std::string_view whole = number.substr(0, dot);
  const std::string_view decimals = number.substr(std::min(dot + 1, number.size()));
  if (number.starts_with('-') && number.size() > 1) {
    refuse(text, "expected a share above 0 %");
  }
  const bool has_digits = !whole.empty() && (dot == number.size() || !decimals.empty());
  if (!has_digits || !are_digits(whole) || !are_digits(decimals)) {
    refuse(text, "expected a percentage such as 60% or 62.5%");
  }
  if (decimals.size() > kMostDecimals) {
    refuse(text, fmt::format("expected at most {} decimals", kMostDecimals));
  }
  std::string digits(whole.substr(std::min(whole.find_first_not_of('0'), whole.size())));
  if (digits.size() > 3) digits = "999";
  digits += decimals;
  digits.append(kMostDecimals - decimals.size(), '0');
  const std::int64_t millionths = std::stoll(digits);
  if (millionths == 0) refuse(text, "expected a share above 0 %");
  if (millionths > kMillion) {
    refuse(text, "expected at most 100%, the peak of keeping everything: no plan needs more");
  }
  return millionths;
}

// A number without a unit that can only have been meant with one.
void refuse_bare_number(const std::string& text) {
  const bool is_bare = !text.empty() && are_digits(text);
  if (!is_bare || text.size() > 6) return;
  if (text.find_first_not_of('0') == std::string::npos) {
    refuse(text, "expected a budget above 0; " + std::string(kExpected));
  }
  refuse(text, fmt::format("{}; did you mean '{}GiB'?", kExpected, text));
}

}  // namespace

BudgetRequest parse_budget(const std::string& text,
                           const std::vector<std::filesystem::path>& folders) {
  BudgetRequest request{.text = text};
  if (text.starts_with(kGpuPrefix)) {
    const std::string name = text.substr(kGpuPrefix.size());
    if (name.empty()) refuse(text, "expected a GPU behind 'gpu:', such as gpu:rtx4090");
    request.kind = BudgetKind::kGpu;
    request.gpu = find_gpu(name, folders);
    request.bytes = capacity_bytes(*request.gpu);
    return request;
  }
  if (text.ends_with('%')) {
    request.kind = BudgetKind::kPercent;
    request.millionths = parse_percent(text);
    return request;
  }
  refuse_bare_number(text);
  const bool is_number =
      !text.empty() && std::string_view("0123456789.-+").find(text[0]) != std::string_view::npos;
  if (!is_number) {
    std::vector<std::string> ids;
    for (const GpuEntry& entry : list_gpus(folders)) ids.push_back(entry.device.id);
    const std::string nearest = nearest_name(text, ids);
    refuse(text, std::string(kExpected) +
                     (nearest.empty() ? "" : fmt::format("; did you mean 'gpu:{}'?", nearest)));
  }
  request.bytes = parse_bytes(text, "--budget");
  return request;
}

std::int64_t budget_bytes(const BudgetRequest& request, std::int64_t keep_all_peak_bytes) {
  if (request.kind != BudgetKind::kPercent) return request.bytes;
  // In two parts, for the product may pass 64 bits.
  return keep_all_peak_bytes / kMillion * request.millionths +
         keep_all_peak_bytes % kMillion * request.millionths / kMillion;
}

}  // namespace cairn
