#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "graph/graph.h"
#include "planner/budget_search.h"
#include "planner/chain_problem.h"
#include "planner/chain_solver.h"
#include "planner/plan_for_budget.h"

// The plans of a chain's solution.

namespace cairn {

class ChainPlans {
 public:
  // For budgets up to `largest_budget_bytes`. Keeps a reference to the request. Throws InputError.
  ChainPlans(const Graph& graph, const PlanRequest& request, std::int64_t largest_budget_bytes);

  // Empty where the request's algorithm or target has no use for a chain. Refers to this object.
  PlanList list() const;
  const ChainProblem& problem() const { return problem_; }
  // "nested-region plans of 66 blocks"; "" without a list.
  std::string optimal_for() const;

 private:
  const PlanRequest& request_;
  ChainProblem problem_ = {};
  Plan keep_all_ = {};
  std::optional<ChainSolution> solution_ = {};
};

}  // namespace cairn
