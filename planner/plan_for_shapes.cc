#include "planner/plan_for_shapes.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <tuple>
#include <utility>

#include "graph/error.h"

namespace cairn {
namespace {

double mean(const std::vector<std::int64_t>& values, const std::vector<double>& weights) {
  double sum = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    sum += weights[i] * static_cast<double>(values[i]);
  }
  return sum / std::accumulate(weights.begin(), weights.end(), 0.0);
}

template <typename Item>
bool have_equal_names(const std::vector<Item>& a, const std::vector<Item>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const Item& x, const Item& y) { return x.name == y.name; });
}

// Ids mean the same in both.
bool have_same_names(const Graph& a, const Graph& b) {
  return have_equal_names(a.ops, b.ops) && have_equal_names(a.tensors, b.tensors);
}

// A plan, for all shapes.
struct Candidate {
  std::vector<Evaluation> evaluations = {};
  std::int64_t peak_bytes = 0;  // the largest
  std::size_t largest = 0;
  double extra_cost = 0;
};

class ShapesPlanner {
 public:
  ShapesPlanner(const std::vector<Graph>& graphs, const std::vector<double>& weights,
                const PlanRequest& request, std::int64_t budget_bytes)
      : graphs_(graphs), weights_(weights), request_(request), budget_bytes_(budget_bytes) {}

  ShapesAnswer answer() {
    collect_plans();
    std::vector<Candidate> candidates;
    for (const Plan& plan : plans_) {
      if (std::optional<Candidate> candidate = evaluate_everywhere(plan)) {
        candidates.push_back(*std::move(candidate));
      }
    }
    if (candidates.empty()) throw InputError("no plan of one shape is a plan of all shapes");
    const auto rank = [&](const Candidate& candidate) {
      const bool fits = candidate.peak_bytes <= budget_bytes_;
      return std::tuple(!fits, fits ? candidate.extra_cost : 0, candidate.peak_bytes);
    };
    auto best =
        std::min_element(candidates.begin(), candidates.end(),
                         [&](const Candidate& a, const Candidate& b) { return rank(a) < rank(b); });
    ShapesAnswer found{.largest = best->largest};
    found.answer = {.is_feasible = best->peak_bytes <= budget_bytes_,
                    .evaluation = best->evaluations[best->largest],
                    .unit = unit_,
                    .extra_cost = std::llround(best->extra_cost),
                    .plan_count = plan_count_};
    if (found.answer.is_feasible) found.answer.bound = bound();
    found.evaluations = std::move(best->evaluations);
    return found;
  }

 private:
  // Of each shape: the plan for this budget, and those that are worth a budget of their own.
  void collect_plans() {
    for (const Graph& graph : graphs_) {
      if (!have_same_names(graph, graphs_[0])) {
        throw InputError("shapes: the model has other ops for some of them");
      }
      PlanAnswer own = plan_for_budget(graph, request_, budget_bytes_);
      unit_ = own.unit;
      plan_count_ += own.plan_count;
      bounds_.push_back(own.bound.extra_cost);
      add(std::move(own.evaluation.plan));
      for (FrontierPoint& point : plan_frontier(graph, request_).points) add(std::move(point.plan));
    }
  }

  void add(Plan plan) {
    const bool is_known = std::any_of(plans_.begin(), plans_.end(),
                                      [&](const Plan& known) { return is_same_plan(known, plan); });
    if (!is_known) plans_.push_back(std::move(plan));
  }

  // Empty for a plan that some shape does not allow: it keeps what nothing reads there.
  std::optional<Candidate> evaluate_everywhere(const Plan& plan) {
    Candidate candidate;
    std::vector<std::int64_t> costs;
    for (std::size_t i = 0; i < graphs_.size(); ++i) {
      try {
        candidate.evaluations.push_back(evaluate_plan(graphs_[i], plan, request_.setting));
      } catch (const InputError&) {
        return std::nullopt;
      }
      ++plan_count_;
      const Evaluation& evaluation = candidate.evaluations.back();
      costs.push_back(extra_cost(evaluation, unit_));
      if (evaluation.trace.peak_bytes <= candidate.peak_bytes) continue;
      candidate.peak_bytes = evaluation.trace.peak_bytes;
      candidate.largest = i;
    }
    candidate.extra_cost = mean(costs, weights_);
    return candidate;
  }

  // Within the budget no plan costs less for any shape alone, so none does for their mix.
  LowerBound bound() const {
    return {.extra_cost = static_cast<std::int64_t>(std::floor(mean(bounds_, weights_))),
            .reason = "the mean of what each shape alone must cost"};
  }

  const std::vector<Graph>& graphs_;
  const std::vector<double>& weights_;
  const PlanRequest& request_;
  std::int64_t budget_bytes_ = 0;
  CostUnit unit_ = CostUnit::kRecomputes;
  std::int64_t plan_count_ = 0;
  std::vector<Plan> plans_ = {};
  std::vector<std::int64_t> bounds_ = {};
};

}  // namespace

ShapesAnswer plan_for_shapes(const std::vector<Graph>& graphs, const std::vector<double>& weights,
                             const PlanRequest& request, std::int64_t budget_bytes) {
  CAIRN_CHECK(!graphs.empty() && graphs.size() == weights.size(), "a weight for each shape");
  return ShapesPlanner(graphs, weights, request, budget_bytes).answer();
}

}  // namespace cairn
