#include "planner/op_costs.h"

#include <algorithm>

#include "graph/checked.h"
#include "graph/error.h"
#include "sim/roofline.h"

namespace cairn {
namespace {

constexpr std::string_view kWhat = "cost of a step";

// Each op and its Backward once, in whatever unit `cost` gives.
template <typename CostOf>
OpCosts summed(const Graph& graph, CostUnit unit, const CostOf& cost) {
  OpCosts costs{.unit = unit};
  costs.forward.reserve(graph.ops.size());
  for (const Op& op : graph.ops) {
    costs.forward.push_back(cost(op, op.forward));
    costs.step = checked_add(costs.step, costs.forward.back(), kWhat);
    if (op.has_backward) costs.step = checked_add(costs.step, cost(op, op.backward), kWhat);
  }
  return costs;
}

bool has_times(const Graph& graph, const DeviceSpec* device) {
  if (device != nullptr && device->has_rates) return true;
  return std::all_of(graph.ops.begin(), graph.ops.end(), [](const Op& op) {
    return known_time_ns(op.forward) && (!op.has_backward || known_time_ns(op.backward));
  });
}

}  // namespace

OpCosts op_costs(const Graph& graph, const DeviceSpec* device) {
  if (has_times(graph, device)) {
    const DeviceSpec none;
    const DeviceSpec& known = device != nullptr ? *device : none;
    return summed(graph, CostUnit::kNanoseconds, [&](const Op& op, const Cost& cost) {
      return op_time_ns(graph, op, cost, known);
    });
  }
  const bool has_flops = std::any_of(graph.ops.begin(), graph.ops.end(),
                                     [](const Op& op) { return op.forward.flops > 0; });
  if (has_flops) {
    return summed(graph, CostUnit::kFlops, [](const Op&, const Cost& cost) { return cost.flops; });
  }
  return summed(graph, CostUnit::kRecomputes,
                [](const Op&, const Cost&) { return std::int64_t{1}; });
}

std::int64_t extra_cost(const Evaluation& evaluation, CostUnit unit) {
  switch (unit) {
    case CostUnit::kNanoseconds:
      CAIRN_CHECK(evaluation.time.has_value(), "costs in ns of what has no times");
      return evaluation.time->recompute_ns;
    case CostUnit::kFlops:
      return evaluation.trace.recompute_flops;
    case CostUnit::kRecomputes:
      return evaluation.trace.recompute_count;
  }
  CAIRN_CHECK(false, "unknown unit");
}

std::string_view cost_unit_name(CostUnit unit) {
  switch (unit) {
    case CostUnit::kNanoseconds:
      return "ns";
    case CostUnit::kFlops:
      return "FLOPs";
    case CostUnit::kRecomputes:
      return "recomputes";
  }
  CAIRN_CHECK(false, "unknown unit");
}

}  // namespace cairn
