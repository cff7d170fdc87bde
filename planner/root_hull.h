#pragma once

#include <cstdint>

#include "planner/chain.h"
#include "planner/chain_sums.h"
#include "planner/nested_table.h"
#include "planner/root_points.h"

// A lower bound of the root's cost for all budgets: the convex hull, from below, of what budgets
// cost is kept for each block instead of the costs themselves. Nothing is rounded on the way, so
// many blocks make it tighter, not looser: a fraction of one choice is what it gives away.

namespace cairn {

// The corners of the hull above the chain's base; between two of them costs are on a straight line.
// The table rounds sizes down, or rounds nothing.
ChainPoints root_hull(const Chain& chain, const ChainSums& sums, const NestedTable& table);

// Rounded down; kInfiniteCost below the first corner.
std::int64_t hull_cost_within(const ChainPoints& hull, std::int64_t bytes);

}  // namespace cairn
