#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "planner/budget_search.h"
#include "planner/chain_problem.h"
#include "planner/chain_solver.h"
#include "planner/plan_for_budget.h"

// The plans of a chain's solution.

namespace cairn {

class ChainPlans {
 public:
  // For budgets up to `largest_budget_bytes`. Keeps references to both. Throws InputError.
  ChainPlans(const Graph& graph, const PlanRequest& request, std::int64_t largest_budget_bytes);

  // Empty where the request's algorithm or target has no use for a chain. Refers to this object.
  PlanList list() const;
  // For a target that makes one choice for all layers: each keep list of the first layer's frontier
  // in every layer, by the tensors' names.
  std::vector<Plan> same_choice_plans() const;
  const ChainProblem& problem() const { return problem_; }
  // "nested-region plans of 66 blocks"; "" without a list.
  std::string optimal_for() const;

 private:
  const Graph& graph_;
  const PlanRequest& request_;
  ChainProblem problem_ = {};
  Plan keep_all_ = {};
  std::optional<ChainSolution> solution_ = {};
};

}  // namespace cairn
