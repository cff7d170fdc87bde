// Nothing is added into a gradient that is a view (docs/accounting.md, rule 10).

#include <doctest/doctest.h>

#include <string>

#include "graph/graph_builder.h"
#include "graph/schedule.h"
#include "sim/simulator.h"
#include "sim/validator.h"

namespace cairn {
namespace {

// words w -> a 1, head a w -> z 1: w of 100 bytes has a contribution of each. Nothing is saved.
Trace tied(bool head_views) {
  GraphBuilder builder("tied", DataType::kFloat32);
  const TensorId w = builder.add_parameter_bytes("w", 100, true);
  const TensorId a = builder.add_custom(
      {.name = "words", .inputs = {w}, .outputs = {{.name = "a", .bytes = 1}}})[0];
  CustomOp head{.name = "head", .inputs = {a, w}, .outputs = {{.name = "z", .bytes = 1}}};
  if (head_views) head.gradient_views = {"w"};
  const TensorId z = builder.add_custom(head)[0];
  const Graph graph = builder.build(z);
  const Plan plan = keep_all_plan(graph);
  const Schedule schedule = lower(graph, plan);
  Trace trace = simulate(graph, plan, schedule);
  const ValidationResult result = validate(graph, plan, schedule);
  CHECK_MESSAGE(result.fault == Fault::kNone, result.message);
  CHECK(result.peak_bytes == trace.peak_bytes);
  return trace;
}

}  // namespace

TEST_CASE("a contribution is added into a gradient that is no view") {
  // B words: w 100, its gradient 100, the contribution 100, the gradient of a 1.
  CHECK(tied(false).peak_bytes == 301);
}

TEST_CASE("a view, the contribution and their sum are there at once, behind the step's frees") {
  // The gradient of a is gone: w 100, view 100, contribution 100, sum 100.
  const Trace trace = tied(true);
  CHECK(trace.peak_bytes == 400);
  CHECK(trace.steps.back().after_bytes == 200);
  std::int64_t listed = 0;
  for (const LiveItem& item : trace.live_at_peak) listed += item.bytes;
  CHECK(listed == 400);
  CHECK(trace.live_at_peak[0].name == "what the gradient of w is the sum of");
  CHECK(trace.live_at_peak[0].bytes == 200);
}

}  // namespace cairn
