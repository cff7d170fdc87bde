#include "planner/evaluation.h"

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

Evaluation evaluate(const Graph& graph, const Strategy& strategy, const Setting& setting) {
  Evaluation evaluation = evaluate_plan(graph, make_plan(graph, strategy, setting.extent), setting);
  evaluation.strategy = strategy;
  return evaluation;
}

Evaluation evaluate_plan(const Graph& graph, Plan plan, const Setting& setting) {
  Evaluation evaluation{.name = plan.algorithm};
  evaluation.plan = std::move(plan);
  evaluation.schedule = lower_training_step(graph, setting.step, lower(graph, evaluation.plan));
  evaluation.trace = simulate(graph, evaluation.plan, evaluation.schedule);
  evaluation.step_flops = step_flops(graph, setting.step);
  evaluation.time = schedule_time(graph, evaluation.schedule, setting.device, setting.rest_ns);
  check_with_validator(graph, setting.step, evaluation);
  return evaluation;
}

void check_with_validator(const Graph& graph, const TrainingStep& step,
                          const Evaluation& evaluation) {
  constexpr std::string_view kPleaseReport = "internal error, please report: ";
  const ValidationResult result =
      validate_training_step(graph, evaluation.plan, step, evaluation.schedule);
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

std::int64_t step_flops(const Graph& graph, const TrainingStep& step) {
  constexpr std::string_view kWhat = "FLOPs of a step";
  std::int64_t flops = 0;
  for (const Op& op : graph.ops) {
    flops = checked_add(flops, op.forward.flops, kWhat);
    if (op.has_backward) flops = checked_add(flops, op.backward.flops, kWhat);
  }
  return checked_multiply(flops, step.micro_batches, kWhat);
}

double slowdown(const Evaluation& evaluation, const Evaluation& reference,
                std::int64_t reference_flops) {
  if (evaluation.time && reference.time && reference.time->total_ns > 0) {
    const auto reference_ns = static_cast<double>(reference.time->total_ns);
    return static_cast<double>(evaluation.time->total_ns) / reference_ns - 1;
  }
  if (reference_flops == 0) return 0;
  const std::int64_t flops = evaluation.step_flops + evaluation.trace.recompute_flops;
  return static_cast<double>(flops - reference_flops) / static_cast<double>(reference_flops);
}

}  // namespace cairn
