#pragma once

#include <vector>

#include "graph/graph.h"
#include "graph/plan.h"
#include "planner/plan_for_budget.h"

// The plans that an algorithm offers for all budgets; which of them fits one, the simulator says.

namespace cairn {

// In no particular order; without repeats where that is cheap to see. Throws InputError when the
// graph does not allow the algorithm.
std::vector<Plan> candidate_plans(const Graph& graph, const PlanRequest& request);

}  // namespace cairn
