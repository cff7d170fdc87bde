#pragma once

#include <cstdint>
#include <vector>

#include "planner/chain_solver.h"

namespace cairn {

// The plan that the root's and the table's choices make within `bytes` above the chain's base.
std::vector<ChainItem> items_of_choices(const Chain& chain, const ChainSums& sums,
                                        const NestedTable& table, const RootPoints& root,
                                        std::int64_t bytes);

}  // namespace cairn
