#pragma once

#include <vector>

#include "graph/graph.h"
#include "planner/block_measures.h"
#include "planner/blocks.h"
#include "planner/chain.h"
#include "planner/evaluation.h"
#include "planner/op_costs.h"

// The chain of a graph, in numbers from the simulator: what it measures of each block when all is
// kept, and when each block but the last is a region of its own. No number is a sum of categories.
//
// A chain planner that stays within a budget by these numbers may still be above or below what the
// simulator finds for its plan, where blocks do not save their inputs, or locals cross from one
// block into the next: the simulator has the last word (planner/chain_plan.h).

namespace cairn {

// One region for each block of [first, last), without keep lists.
Plan block_regions(const Graph& graph, const std::vector<Block>& blocks, Extent extent);

// Without keep options. Throws InputError where a block may not be a region.
Chain chain_from_graph(const Graph& graph, const std::vector<Block>& blocks, const Setting& setting,
                       const OpCosts& costs);

}  // namespace cairn
