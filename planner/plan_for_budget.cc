#include "planner/plan_for_budget.h"

#include <algorithm>
#include <cmath>
#include <tuple>

#include "graph/error.h"
#include "planner/candidates.h"

namespace cairn {
namespace {

std::vector<Evaluation> evaluate_candidates(const Graph& graph, const PlanRequest& request) {
  std::vector<Evaluation> evaluations;
  for (Plan& plan : candidate_plans(graph, request)) {
    evaluations.push_back(evaluate_plan(graph, std::move(plan), request.setting));
  }
  CAIRN_CHECK(!evaluations.empty(), "every algorithm offers a plan");
  return evaluations;
}

// Of the points the one nearest to the least peak at no cost.
std::size_t knee_of(const std::vector<FrontierPoint>& points) {
  const auto peak_range = static_cast<double>(points.front().peak_bytes - points.back().peak_bytes);
  const auto cost_range = static_cast<double>(points.back().extra_cost - points.front().extra_cost);
  std::size_t knee = 0;
  double least = 2;
  for (std::size_t i = 0; i < points.size(); ++i) {
    const auto above = static_cast<double>(points[i].peak_bytes - points.back().peak_bytes);
    const auto extra = static_cast<double>(points[i].extra_cost - points.front().extra_cost);
    const double distance = std::hypot(peak_range > 0 ? above / peak_range : 0,
                                       cost_range > 0 ? extra / cost_range : 0);
    if (distance < least) {
      least = distance;
      knee = i;
    }
  }
  return knee;
}

}  // namespace

PlanAnswer plan_for_budget(const Graph& graph, const PlanRequest& request,
                           std::int64_t budget_bytes) {
  std::vector<Evaluation> evaluations = evaluate_candidates(graph, request);
  PlanAnswer answer{.unit = op_costs(graph, request.setting.device).unit,
                    .plan_count = static_cast<std::int64_t>(evaluations.size())};
  const auto rank = [&](const Evaluation& evaluation) {
    const std::int64_t peak_bytes = evaluation.trace.peak_bytes;
    const bool fits = peak_bytes <= budget_bytes;
    // What fits by cost, behind it the rest by peak.
    return std::tuple(!fits, fits ? extra_cost(evaluation, answer.unit) : 0, peak_bytes);
  };
  const auto best =
      std::min_element(evaluations.begin(), evaluations.end(),
                       [&](const Evaluation& a, const Evaluation& b) { return rank(a) < rank(b); });
  answer.is_feasible = best->trace.peak_bytes <= budget_bytes;
  answer.extra_cost = extra_cost(*best, answer.unit);
  answer.evaluation = std::move(*best);
  return answer;
}

Frontier plan_frontier(const Graph& graph, const PlanRequest& request) {
  Frontier frontier{.unit = op_costs(graph, request.setting.device).unit};
  std::vector<FrontierPoint> all;
  for (Evaluation& evaluation : evaluate_candidates(graph, request)) {
    all.push_back({.peak_bytes = evaluation.trace.peak_bytes,
                   .extra_cost = extra_cost(evaluation, frontier.unit),
                   .plan = std::move(evaluation.plan)});
  }
  std::stable_sort(all.begin(), all.end(), [](const FrontierPoint& a, const FrontierPoint& b) {
    return std::pair(a.extra_cost, a.peak_bytes) < std::pair(b.extra_cost, b.peak_bytes);
  });
  for (FrontierPoint& point : all) {
    if (!frontier.points.empty() && point.peak_bytes >= frontier.points.back().peak_bytes) continue;
    frontier.points.push_back(std::move(point));
  }
  frontier.knee = knee_of(frontier.points);
  return frontier;
}

}  // namespace cairn
