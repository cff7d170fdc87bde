#pragma once

#include <vector>

#include "graph/graph.h"
#include "graph/plan.h"
#include "planner/plan_for_budget.h"

// The plans that an algorithm offers for all budgets; which of them fits one, the simulator says.

namespace cairn {

// Of the request's algorithm, in no particular order; none for those that solve a chain
// (planner/chain_plan.h). With `auto` those of all others that the target can run. All meet the
// request's constraints.
std::vector<Plan> candidate_plans(const Graph& graph, const PlanRequest& request);

}  // namespace cairn
