#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "graph/graph.h"
#include "graph/plan.h"

// Every plan of small graphs, for oracles.

namespace cairn::test {

// All trees of regions without keep lists over blocks, given as half-open ranges of the order, that
// leave the last block alone. A region that holds but one region is left out: it is the same plan
// as that (docs/accounting.md, rule 22). 1, 2, 8, 48, 352, 2,880 and 25,216 of 1 to 7 blocks.
std::vector<std::vector<Region>> region_trees(
    const std::vector<std::pair<std::int32_t, std::int32_t>>& blocks);

// Plans of these trees in the graph's order.
std::vector<Plan> region_tree_plans(
    const Graph& graph, const std::vector<std::pair<std::int32_t, std::int32_t>>& blocks,
    Extent extent);

// The plan with every choice of keep lists for its outermost regions, of tensors that they make and
// some op saves. What nothing would read is in none of them.
std::vector<Plan> with_keep_lists(const Graph& graph, const Plan& plan);

}  // namespace cairn::test
