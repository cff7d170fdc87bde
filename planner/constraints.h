#pragma once

#include <optional>
#include <string>

#include "graph/graph.h"
#include "graph/plan.h"
#include "planner/plan_for_budget.h"

// What the user wants of single tensors: to be kept wherever they lie, or to be made again.

namespace cairn {

// Throws InputError when the target cannot run the algorithm's plans, when a constraint cannot be
// met by any plan, or two contradict each other: a tensor that no Backward reads has nothing to be
// kept for, one that may not be made again has to be.
void check_request(const Graph& graph, const PlanRequest& request);

// The plan with the tensors to keep in the lists of its outermost regions; empty when a tensor to
// be made again lies in none, or is in a list, or when the target has no such lists.
std::optional<Plan> constrained(const Graph& graph, const PlanRequest& request, Plan plan);

}  // namespace cairn
