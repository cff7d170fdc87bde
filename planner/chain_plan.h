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
  // For all budgets. Keeps references to both. Throws InputError.
  ChainPlans(const Graph& graph, const PlanRequest& request);
  // For one budget, and where that costs little for somewhat larger ones: plans may peak lower than
  // the chain's numbers say.
  ChainPlans(const Graph& graph, const PlanRequest& request, std::int64_t budget_bytes);

  // Solves what was solved for one budget once more, for all.
  void solve_for_all_budgets();

  // Empty where the request's algorithm or target has no use for a chain. Refers to this object.
  PlanList list() const;
  // For a target that makes one choice for all layers: each keep list of the first layer's frontier
  // in every layer, by the tensors' names.
  std::vector<Plan> same_choice_plans() const;
  // Whether it is one of the list: by its name.
  bool made(const Plan& plan) const;
  const ChainProblem& problem() const { return problem_; }
  // "nested regions of 66 blocks, ... (to within 0.02 %)", of a plan of that cost for one
  // micro-batch; "" without a list.
  std::string optimal_for(std::int64_t budget_bytes, std::int64_t extra_cost) const;

 private:
  ChainPlans(const Graph& graph, const PlanRequest& request, std::optional<std::int64_t> budget);
  std::string class_of_plans() const;

  const Graph& graph_;
  const PlanRequest& request_;
  ChainProblem problem_ = {};
  Plan keep_all_ = {};
  std::optional<ChainSolution> solution_ = {};
};

}  // namespace cairn
