#include "planner/plan_for_budget.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <tuple>

#include "graph/checked.h"
#include "graph/error.h"
#include "planner/budget_search.h"
#include "planner/candidates.h"
#include "planner/chain_plan.h"
#include "planner/constraints.h"
#include "planner/lower_bound.h"

namespace cairn {
namespace {

bool is_cheaper(const TriedPlan& a, const TriedPlan& b) {
  return std::pair(a.extra_cost, a.peak_bytes) < std::pair(b.extra_cost, b.peak_bytes);
}

bool is_smaller(const TriedPlan& a, const TriedPlan& b) {
  return std::pair(a.peak_bytes, a.extra_cost) < std::pair(b.peak_bytes, b.extra_cost);
}

// A budget is useful when it is smaller than the next by more than so small a part of all that can
// be saved; and the least of all.
constexpr std::int64_t kUsefulBudgets = 512;

// One request, for one budget or for all.
class Planning {
 public:
  Planning(const Graph& graph, const PlanRequest& request, ChainPlans chain_plans)
      : graph_(graph),
        request_(request),
        chain_plans_(std::move(chain_plans)),
        trials_(graph, request.setting, chain_plans_.problem().costs) {}

  PlanAnswer answer(std::int64_t budget_bytes) {
    const ChainProblem& problem = chain_plans_.problem();
    const LowerBounds bounds(graph_, problem.blocks, problem.chain, problem.costs);
    std::optional<TriedPlan> best;
    if (budget_bytes >= bounds.least_peak_bytes()) best = cheapest(budget_bytes);
    if (!best) best = smallest();
    PlanAnswer answer{.is_feasible = best->peak_bytes <= budget_bytes, .unit = costs().unit};
    answer.extra_cost = best->extra_cost;
    answer.evaluation = evaluate_plan(graph_, std::move(best->plan), request_.setting);
    CAIRN_CHECK(answer.evaluation.trace.peak_bytes == best->peak_bytes, "two peaks of one plan");
    answer.evaluation.strategy = request_.strategy;
    answer.plan_count = trials_.plan_count();
    if (answer.is_feasible) add_bound(bounds.at(budget_bytes), budget_bytes, answer);
    return answer;
  }

  Frontier frontier() {
    std::vector<TriedPlan> tried = trials_.try_plans(other_plans());
    for (TriedPlan& plan : trials_.try_plans(chain_samples())) tried.push_back(std::move(plan));
    std::stable_sort(tried.begin(), tried.end(), is_cheaper);
    Frontier frontier{.unit = costs().unit};
    if (tried.empty()) return frontier;
    const std::int64_t least_bytes =
        std::min_element(tried.begin(), tried.end(), is_smaller)->peak_bytes;
    const std::int64_t worth_bytes = (tried.front().peak_bytes - least_bytes) / kUsefulBudgets;
    for (TriedPlan& plan : tried) {
      std::vector<FrontierPoint>& points = frontier.points;
      const bool is_least = plan.peak_bytes == least_bytes;
      const std::int64_t above_bytes = is_least ? 1 : std::max<std::int64_t>(worth_bytes, 1);
      if (!points.empty() && plan.peak_bytes > points.back().peak_bytes - above_bytes) continue;
      points.push_back({.peak_bytes = plan.peak_bytes,
                        .extra_cost = plan.extra_cost,
                        .plan = std::move(plan.plan)});
    }
    return frontier;
  }

 private:
  const OpCosts& costs() const { return chain_plans_.problem().costs; }

  // All that are not the chain's solutions.
  std::vector<Plan> other_plans() const {
    std::vector<Plan> plans = candidate_plans(graph_, request_);
    for (Plan& plan : chain_plans_.same_choice_plans()) {
      std::optional<Plan> allowed = constrained(graph_, request_, std::move(plan));
      if (allowed) plans.push_back(std::move(*allowed));
    }
    return plans;
  }

  // The cheapest within the budget: of the chain's plans, and of others that cost less.
  std::optional<TriedPlan> cheapest(std::int64_t budget_bytes) {
    std::optional<TriedPlan> best = cheapest_within(chain_plans_.list(), budget_bytes, trials_);
    std::vector<Plan> others = other_plans();
    if (best) {
      std::erase_if(others,
                    [&](const Plan& plan) { return trials_.cost_of(plan) >= best->extra_cost; });
    }
    for (TriedPlan& tried : trials_.try_plans(std::move(others))) {
      if (tried.peak_bytes > budget_bytes) continue;
      if (!best || is_cheaper(tried, *best)) best = std::move(tried);
    }
    return best;
  }

  // The one with the least peak of all algorithms, where none is within the budget.
  TriedPlan smallest() {
    constexpr std::size_t kOfChain = 64;
    std::vector<Plan> plans = other_plans();
    chain_plans_.solve_for_all_budgets();
    add_smallest_of_chain(kOfChain, plans);
    std::vector<TriedPlan> tried = trials_.try_plans(std::move(plans));
    if (tried.empty()) {
      throw InputError("no plan does what is asked of single tensors");
    }
    return std::move(*std::min_element(tried.begin(), tried.end(), is_smaller));
  }

  void add_smallest_of_chain(std::size_t count, std::vector<Plan>& plans) const {
    const PlanList list = chain_plans_.list();
    const std::size_t most = std::min(count, list.expected.size());
    for (std::size_t i = 1; i <= most; ++i) {
      plans.push_back(list.plan_of(list.expected.size() - i));
    }
  }

  // So many of the chain's plans that a line through their peaks and costs shows them all.
  std::vector<Plan> chain_samples() const {
    constexpr std::size_t kMostSamples = 128;
    constexpr std::size_t kSmallest = 16;
    const PlanList list = chain_plans_.list();
    const std::size_t count = list.expected.size();
    const std::size_t samples = std::min(count, kMostSamples);
    std::vector<Plan> plans;
    for (std::size_t i = 0; i < samples; ++i) {
      plans.push_back(list.plan_of(samples == 1 ? 0 : i * (count - 1) / (samples - 1)));
    }
    add_smallest_of_chain(kSmallest, plans);
    return plans;
  }

  void add_bound(const CostBound& bound, std::int64_t budget_bytes, PlanAnswer& answer) const {
    const ChainProblem& problem = chain_plans_.problem();
    answer.bound.extra_cost = checked_multiply(
        bound.extra_cost, request_.setting.step.micro_batches, "bound of a training step");
    if (bound.block >= 0) {
      const Block& block = problem.blocks[static_cast<std::size_t>(bound.block)];
      answer.bound.reason =
          fmt::format("at {}", graph_.ops[static_cast<std::size_t>(block.begin)].name);
    }
    if (!chain_plans_.made(answer.evaluation.plan)) return;  // a heuristic's
    answer.optimal_for = chain_plans_.optimal_for(
        budget_bytes, answer.extra_cost / request_.setting.step.micro_batches);
  }

  const Graph& graph_;
  const PlanRequest& request_;
  ChainPlans chain_plans_;
  PlanTrials trials_;
};

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
  check_request(graph, request);
  return Planning(graph, request, ChainPlans(graph, request, budget_bytes)).answer(budget_bytes);
}

Frontier plan_frontier(const Graph& graph, const PlanRequest& request) {
  check_request(graph, request);
  Planning planning(graph, request, ChainPlans(graph, request));
  Frontier frontier = planning.frontier();
  if (frontier.points.empty()) throw InputError("no plan does what is asked of single tensors");
  frontier.knee = knee_of(frontier.points);
  return frontier;
}

}  // namespace cairn
