#include "cli/evaluation.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "graph/checked.h"
#include "graph/error.h"
#include "sim/simulator.h"
#include "sim/validator.h"

namespace cairn {
namespace {

bool are_same_regions(const std::vector<Region>& a, const std::vector<Region>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const Region& x, const Region& y) {
    return x.begin == y.begin && x.end == y.end && x.keep == y.keep &&
           are_same_regions(x.inner, y.inner);
  });
}

}  // namespace

Evaluation evaluate(const Graph& graph, const Strategy& strategy, Extent extent,
                    const DeviceSpec* device) {
  Evaluation evaluation = evaluate_plan(graph, make_plan(graph, strategy, extent), device);
  evaluation.strategy = strategy;
  return evaluation;
}

Evaluation evaluate_plan(const Graph& graph, Plan plan, const DeviceSpec* device) {
  Evaluation evaluation{.name = plan.algorithm, .plan = std::move(plan)};
  evaluation.schedule = lower(graph, evaluation.plan);
  evaluation.trace = simulate(graph, evaluation.plan, evaluation.schedule);
  evaluation.time = schedule_time(graph, evaluation.schedule, device);
  check_with_validator(graph, evaluation);
  return evaluation;
}

void check_with_validator(const Graph& graph, const Evaluation& evaluation) {
  constexpr std::string_view kPleaseReport = "internal error, please report: ";
  const ValidationResult result = validate(graph, evaluation.plan, evaluation.schedule);
  CAIRN_CHECK(result.fault == Fault::kNone,
              fmt::format("{}the plan '{}' of '{}' is not valid: {}", kPleaseReport,
                          evaluation.name, graph.name, result.message));
  CAIRN_CHECK(result.peak_bytes == evaluation.trace.peak_bytes,
              fmt::format("{}the plan '{}' of '{}' peaks at {} bytes by the validator and at {} by "
                          "the simulator",
                          kPleaseReport, evaluation.name, graph.name, result.peak_bytes,
                          evaluation.trace.peak_bytes));
}

bool is_same_plan(const Plan& a, const Plan& b) {
  return a.extent == b.extent && a.order == b.order && are_same_regions(a.regions, b.regions);
}

std::int64_t step_flops(const Graph& graph) {
  std::int64_t flops = 0;
  for (const Op& op : graph.ops) {
    flops = checked_add(flops, op.forward.flops, "FLOPs of a step");
    if (op.has_backward) flops = checked_add(flops, op.backward.flops, "FLOPs of a step");
  }
  return flops;
}

double slowdown(const Evaluation& evaluation, const Evaluation& reference,
                std::int64_t reference_flops) {
  if (evaluation.time && reference.time && reference.time->total_ns > 0) {
    const auto reference_ns = static_cast<double>(reference.time->total_ns);
    return static_cast<double>(evaluation.time->total_ns) / reference_ns - 1;
  }
  if (reference_flops == 0) return 0;
  return static_cast<double>(evaluation.trace.recompute_flops) /
         static_cast<double>(reference_flops);
}

std::string_view phase_name(StepKind kind) {
  switch (kind) {
    case StepKind::kCompute:
      return "forward";
    case StepKind::kRecompute:
      return "recompute";
    case StepKind::kBackward:
      return "backward";
    case StepKind::kFree:
    case StepKind::kFreeGradient:
      break;
  }
  CAIRN_CHECK(false, "a Free has no phase");
}

std::string step_place(const Graph& graph, const Step& step) {
  return fmt::format("{} of {}", phase_name(step.kind), graph.op(step.op).name);
}

const Step& peak_step(const Evaluation& evaluation) {
  const Trace& trace = evaluation.trace;
  CAIRN_CHECK(!trace.steps.empty(), "a graph has at least one op");
  return evaluation.schedule.steps[trace.steps[trace.peak_entry].step];
}

std::string peak_place(const Graph& graph, const Evaluation& evaluation) {
  return step_place(graph, peak_step(evaluation));
}

}  // namespace cairn
