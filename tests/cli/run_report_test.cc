#include "cli/run_report.h"

#include <doctest/doctest.h>

#include <array>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "tests/executor/small_models.h"

namespace cairn {
namespace {

// Of a run in which all is equal.
RunReport right_report() {
  RunReport report{.model = small_gpt(1), .device = "cpu", .step_count = 2, .seed = 1};
  report.graph = report.model.graph;
  report.evaluation = evaluate(report.graph, {.algorithm = Algorithm::kEveryLayer}, {});
  report.reference_evaluation = evaluate(report.graph, {}, {});
  report.executed = {.losses = {5.5, 5.25},
                     .gradients = {{}, {}},
                     .compared_steps = 20,
                     .simulated_peak_bytes = 1000,
                     .measured_peak_bytes = 1000,
                     .footprint_bytes = 1100,
                     .step_ns = 2'000'000};
  report.reference = report.executed;
  report.slowdowns = {.by_flops = 0.5, .by_times = 0.25, .measured = 0.0};
  return report;
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// Spaces for line ends, so that it matters not where a line ends.
std::string text_of(const RunReport& report) {
  std::string text = run_text(report);
  for (char& c : text) c = c == '\n' ? ' ' : c;
  return text;
}

nlohmann::json json_of(const RunReport& report) { return nlohmann::json::parse(run_json(report)); }

TEST_CASE("a run in which all is equal holds") {
  const RunReport report = right_report();
  CHECK(holds(report));
  CHECK(contains(text_of(report), "every-layer runs as simulated, to the byte; every gradient"));
  CHECK(json_of(report)["holds"] == true);
  CHECK(json_of(report)["gradient_difference"].is_null());
}

TEST_CASE("a difference of bytes is named, with both numbers") {
  RunReport report = right_report();
  report.executed.bytes_difference = {.training_step = 2,
                                      .place = "backward of h.0.up",
                                      .simulated_during_bytes = 1234,
                                      .simulated_after_bytes = 1000,
                                      .measured_during_bytes = 1238,
                                      .measured_after_bytes = 1004};
  CHECK(!holds(report));
  CHECK(contains(text_of(report),
                 "The bytes of every-layer differ first in training step 2, backward of h.0.up: "
                 "simulated 1,234 in it and 1,000 behind it, measured 1,238 and 1,004."));
  CHECK(!contains(text_of(report), "runs as simulated"));
  const nlohmann::json difference = json_of(report)["plan"]["bytes_difference"];
  CHECK(difference == nlohmann::json{{"training_step", 2},
                                     {"at", "backward of h.0.up"},
                                     {"simulated_during_bytes", 1234},
                                     {"simulated_after_bytes", 1000},
                                     {"measured_during_bytes", 1238},
                                     {"measured_after_bytes", 1004}});
  report.reference->bytes_difference = std::exchange(report.executed.bytes_difference, {});
  CHECK(!holds(report));
  CHECK(contains(text_of(report), "The bytes of keeping everything differ first"));
}

TEST_CASE("differences of a gradient and of a loss are named") {
  RunReport report = right_report();
  report.gradient_difference = {.training_step = 1,
                                .parameter = report.graph.ops[0].inputs.back(),
                                .element = 1017,
                                .value = std::numeric_limits<double>::quiet_NaN(),
                                .reference_value = 0.25};
  CHECK(!holds(report));
  CHECK(contains(text_of(report),
                 "The gradient of wte.weight differs first in training step 1, at element 1,017: "
                 "nan with every-layer, 0.25 when everything is kept."));
  CHECK(json_of(report)["gradient_difference"] == nlohmann::json{{"training_step", 1},
                                                                 {"parameter", "wte.weight"},
                                                                 {"element", 1017},
                                                                 {"value", nullptr},
                                                                 {"reference_value", 0.25}});

  report = right_report();
  report.loss_difference = {.training_step = 2, .loss = 5.25, .reference_loss = 5.5};
  CHECK(!holds(report));
  CHECK(contains(text_of(report),
                 "The loss differs first in training step 2: 5.25 with "
                 "every-layer, 5.5 when everything is kept."));
  CHECK(json_of(report)["loss_difference"] ==
        nlohmann::json{{"training_step", 2}, {"value", 5.25}, {"reference_value", 5.5}});
}

TEST_CASE("a loss that is no number does not hold, and is null in JSON") {
  RunReport report = right_report();
  report.executed.losses.back() = std::numeric_limits<double>::quiet_NaN();
  CHECK(!holds(report));
  CHECK(contains(text_of(report), "The loss of training step 2 is nan: the run ends there."));
  report.reference = report.executed;
  CHECK(contains(text_of(report), "is nan, and when everything is kept too: the run ends there."));
  CHECK(json_of(report)["plan"]["losses"] == nlohmann::json{5.5, nullptr});
}

// So many kinds, of 100, 99, ... us forward and 1 us backward.
std::vector<OpKindTime> op_kinds(std::size_t count) {
  constexpr std::array<std::string_view, 11> kNames = {
      "linear", "attention", "gelu",    "layer_norm", "add",          "dropout",
      "cast",   "softmax",   "reshape", "embedding",  "cross_entropy"};
  std::vector<OpKindTime> times;
  for (std::size_t i = 0; i < count; ++i) {
    times.push_back({.op_kind = kNames.at(i),
                     .forward_ns = 100'000 - 1000 * static_cast<std::int64_t>(i),
                     .backward_ns = 1000});
  }
  return times;
}

TEST_CASE("the time of eight op kinds is printed, and that of all others in one row") {
  RunReport report = right_report();  // a step of 2 ms
  report.executed.op_kinds = op_kinds(11);
  CHECK(contains(run_text(report), R"(
Time by op kind, every-layer  forward  backward  of the step
  linear                       100 us   1.00 us        5.0 %
)"));
  // 92 + 91 + 90 of 2,000, and 3.
  CHECK(contains(run_text(report), R"(
  softmax                     93.0 us   1.00 us        4.7 %
  3 others                     273 us   3.00 us         14 %
)"));
  CHECK(!contains(run_text(report), "reshape"));

  report.executed.op_kinds = op_kinds(9);
  CHECK(contains(run_text(report), "  reshape "));
  CHECK(!contains(run_text(report), "others"));
}

TEST_CASE("recomputes have a column by op kind where there are any") {
  RunReport report = right_report();
  report.executed.op_kinds = op_kinds(2);
  report.executed.op_kinds[1].recompute_ns = 500'000;
  CHECK(contains(run_text(report), R"(
Time by op kind, every-layer  forward  recompute  backward  of the step
  linear                       100 us              1.00 us        5.0 %
  attention                   99.0 us     500 us   1.00 us         30 %
)"));
  CHECK(json_of(report)["plan"]["op_kinds"][1] == nlohmann::json{{"kind", "attention"},
                                                                 {"forward_ns", 99'000},
                                                                 {"recompute_ns", 500'000},
                                                                 {"backward_ns", 1000}});
}

}  // namespace
}  // namespace cairn
