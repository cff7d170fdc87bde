#pragma once

#include <cstdint>
#include <vector>

#include "planner/chain_solver.h"

namespace cairn {

// The plan that the root's and the table's choices make within `bytes` above the chain's base.
std::vector<ChainItem> items_of_choices(const RootFrontier& root, const NestedTable& table,
                                        std::int64_t block_count, std::int64_t bytes);

}  // namespace cairn
