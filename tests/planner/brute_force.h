#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "graph/graph.h"
#include "graph/plan.h"
#include "planner/plan_for_budget.h"

// The best of all of some plans, by lowering and simulating each: an oracle for planners.

namespace cairn::test {

// The points that no other is both smaller and cheaper than, by falling peak and so by rising cost,
// in the unit of `op_costs`. Of equal plans the first.
std::vector<FrontierPoint> brute_force(const Graph& graph, const std::vector<Plan>& plans);

// Empty when none of the points fits.
std::optional<std::int64_t> least_extra_cost(const std::vector<FrontierPoint>& frontier,
                                             std::int64_t budget_bytes);

}  // namespace cairn::test
