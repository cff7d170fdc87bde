// The plain graphs of tests/models/graphs: worked examples X1 to X4 of docs/accounting.md as files,
// and files that are wrong in one way each.

#include <doctest/doctest.h>

#include <filesystem>
#include <string>

#include "graph/error.h"
#include "graph/schedule.h"
#include "models/load_model.h"
#include "sim/simulator.h"
#include "sim/validator.h"

namespace cairn {
namespace {

const std::filesystem::path kFolder =
    std::filesystem::path(CAIRN_SOURCE_DIR) / "tests/models/graphs";

// "60 at B 2": the peak of keeping everything, as tests/sim/worked_examples_test.cc has it.
std::string keep_all_peak(const std::string& file) {
  const LoadedModel model = load_model({.model = (kFolder / file).string()});
  CHECK(model.name + ".yaml" == file);
  CHECK(model.family.empty());
  const Plan plan = keep_all_plan(model.graph);
  const Schedule schedule = lower(model.graph, plan);
  const Trace trace = simulate(model.graph, plan, schedule);
  const ValidationResult verdict = validate(model.graph, plan, schedule);
  CHECK_MESSAGE(verdict.fault == Fault::kNone, verdict.message);
  CHECK(verdict.peak_bytes == trace.peak_bytes);
  const Step& peak_step = schedule.steps[trace.steps[trace.peak_entry].step];
  return std::to_string(trace.peak_bytes) + " at " + step_text(model.graph, peak_step);
}

TEST_CASE("the sample graphs have the keep-all peaks of the worked examples") {
  CHECK(keep_all_peak("x1_chain.yaml") == "60 at B 2");
  CHECK(keep_all_peak("x2_residual.yaml") == "40 at B add");
  CHECK(keep_all_peak("x3_unet_skip.yaml") == "101 at B loss");
  // B(att): x 8 + q 24 + o 8 + lse 2 + gradient of o 8 + gradient of q 24 = 74
  CHECK(keep_all_peak("x4_flash_attention.yaml") == "74 at B att");
}

// The first line of the message, without the file.
std::string complaint(const std::string& file) {
  const std::string path = (kFolder / "bad" / file).string();
  try {
    load_model({.model = path});
  } catch (const InputError& error) {
    const std::string message = error.what();
    REQUIRE(message.starts_with(path + ":"));
    const std::size_t begin = path.size() + 1;
    return message.substr(begin, message.find('\n') - begin);
  }
  FAIL(file << " was accepted");
  return {};
}

TEST_CASE("a plain graph of a wrong structure is refused at the fault") {
  CHECK(complaint("structure/negative_bytes.yaml") ==
        "3:15: an input: key 'bytes': expected zero or more, found -8");
  CHECK(complaint("structure/empty_name.yaml") ==
        "3:6: an input: key 'name': expected a name, found an empty text");
  CHECK(complaint("structure/no_ops.yaml") ==
        "4:1: a plain graph: key 'ops': expected at least one op, found none");
  CHECK(complaint("structure/no_outputs.yaml") ==
        "5:5: op 'f': key 'outputs': expected at least one, found none");
  CHECK(complaint("structure/quoted_bytes.yaml") ==
        "3:22: an input: key 'bytes': expected an integer, found the text '8'");
  CHECK(complaint("structure/recompute_policy.yaml") ==
        "5:60: op 'f': key 'recompute': expected always, replay_random or never, found "
        "'sometimes'");
  CHECK(complaint("structure/unknown_key.yaml") ==
        "5:60: op 'f': unknown key 'save'; did you mean 'saves'?");
  CHECK(complaint("structure/unnamed_op.yaml") == "5:5: op 1: missing key 'name'");
  CHECK(complaint("structure/version.yaml") ==
        "1:1: a plain graph: key 'cairn_graph': expected version 1, found 2");
}

TEST_CASE("a plain graph that means nothing is refused at the fault") {
  CHECK(complaint("meaning/alias_of_other_bytes.yaml") ==
        "5:5: op 'f': the gradient of 'x' cannot alias that of the output: their bytes differ");
  CHECK(complaint("meaning/cycle.yaml") ==
        "5:27: op 'f': it reads 'z': a cycle of ops: 'f' -> 'g' -> 'f'");
  CHECK(complaint("meaning/large_view.yaml") ==
        "5:5: tensor 'y': a view of 9 bytes does not fit in the 8 bytes of 'x'");
  CHECK(complaint("meaning/made_later.yaml") ==
        "5:24: op 'f': it reads 'z', which op 'g' makes later");
  CHECK(
      complaint("meaning/reads_auxiliary.yaml") ==
      "6:5: op 'g': it reads 'm', an auxiliary of op 'f', which only that op's own Backward reads");
  CHECK(complaint("meaning/saves_stranger.yaml") ==
        "6:5: op 'g': it saves 'x', which is not one of its own tensors; did you mean 'y'?");
  CHECK(complaint("meaning/twice.yaml") == "5:5: tensor 'x': the name is used twice");
}

}  // namespace
}  // namespace cairn
