#pragma once

#include <vector>

#include "graph/graph.h"
#include "planner/blocks.h"
#include "planner/op_costs.h"

// For a price a byte, the cheapest way for a block to have what its Backwards read: keep it, or run
// the op that makes it again, for which that op's inputs have to be there in turn. A least cut.

namespace cairn {

// Tensors that play a part in it, by storage.
struct CutStorages {
  std::vector<bool> is_read = {};   // by a Backward
  std::vector<bool> is_given = {};  // handed on between blocks: there for nothing
};
CutStorages cut_storages(const Graph& graph, const std::vector<Block>& blocks);

struct BlockCut {
  double least = 0;  // cost + price * bytes, rounded down
  double cost = 0;   // of what runs again
  double bytes = 0;  // of what is kept
};
BlockCut cheapest_cut(const Graph& graph, const Block& block, const CutStorages& storages,
                      const OpCosts& costs, double price);

}  // namespace cairn
