#include "tests/planner/brute_force.h"

#include <algorithm>
#include <utility>

#include "graph/schedule.h"
#include "planner/op_costs.h"
#include "sim/simulator.h"

namespace cairn::test {

std::vector<FrontierPoint> brute_force(const Graph& graph, const std::vector<Plan>& plans) {
  const OpCosts costs = op_costs(graph, nullptr);
  std::vector<std::pair<std::pair<std::int64_t, std::int64_t>, std::size_t>> priced;
  for (std::size_t i = 0; i < plans.size(); ++i) {
    const Schedule schedule = lower(graph, plans[i]);
    std::int64_t extra_cost = 0;
    for (const Step& step : schedule.steps) {
      if (step.kind == StepKind::kRecompute) extra_cost += costs.forward[index(step.op)];
    }
    priced.push_back({{extra_cost, simulated_peak_bytes(graph, schedule)}, i});
  }
  std::sort(priced.begin(), priced.end());
  std::vector<FrontierPoint> frontier;
  for (const auto& [price, i] : priced) {
    const auto [extra_cost, peak_bytes] = price;
    if (!frontier.empty() && peak_bytes >= frontier.back().peak_bytes) continue;
    frontier.push_back({.peak_bytes = peak_bytes, .extra_cost = extra_cost, .plan = plans[i]});
  }
  return frontier;
}

std::optional<std::int64_t> least_extra_cost(const std::vector<FrontierPoint>& frontier,
                                             std::int64_t budget_bytes) {
  for (const FrontierPoint& point : frontier) {
    if (point.peak_bytes <= budget_bytes) return point.extra_cost;
  }
  return std::nullopt;
}

}  // namespace cairn::test
