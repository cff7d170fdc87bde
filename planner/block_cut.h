#pragma once

#include <vector>

#include "graph/graph.h"
#include "planner/blocks.h"
#include "planner/op_costs.h"

// For a price a byte, the cheapest way to have what Backwards read: keep it, or run the op that
// makes it again, for which that op's inputs have to be there in turn. A least cut, block by block.

namespace cairn {

// Tensors that play a part in it, by storage.
struct CutStorages {
  std::vector<bool> is_read = {};       // by a Backward
  std::vector<bool> is_handed_on = {};  // between blocks
};
CutStorages cut_storages(const Graph& graph, const std::vector<Block>& blocks);

struct BlockCut {
  double least = 0;  // cost + price * bytes, rounded down
  double cost = 0;   // of what runs again
  double bytes = 0;  // of what is kept
};

// Of the first blocks together, by their count. What they hand on is kept or made again like the
// rest; what the last of them hands on is not asked for. Equal kinds are cut once.
std::vector<BlockCut> cheapest_cuts(const Graph& graph, const std::vector<Block>& blocks,
                                    const CutStorages& storages, const OpCosts& costs,
                                    double price);

}  // namespace cairn
