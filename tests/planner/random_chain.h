#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "graph/graph.h"
#include "planner/chain.h"
#include "tests/sim/random_graph.h"

// Random training steps that are chains of blocks, the same for the same seed.

namespace cairn::test {

// A layer that saves its input, its output and an auxiliary.
struct ChainLayer {
  std::int64_t output_bytes = 0;
  std::int64_t auxiliary_bytes = 0;
  std::int64_t workspace_bytes = 0;        // of a forward that keeps the auxiliary
  std::int64_t sweep_workspace_bytes = 0;  // of one that does not make it
  std::int64_t backward_workspace_bytes = 0;
  std::int64_t forward_ns = 0;
};

struct LayerChain {
  std::int64_t input_bytes = 0;
  std::vector<ChainLayer> layers = {};  // the last is the loss
};

// Sizes and times of which no two need be equal.
LayerChain random_layer_chain(std::size_t layer_count, Random& random);

// One op a layer, all in the order of the chain; the input has a gradient.
Graph chain_graph(const LayerChain& chain);

// What a planner is told of it.
Chain chain_numbers(const LayerChain& chain);

// Blocks of 1 to 4 ops and a loss. An op reads what its own block has, whose first op reads what
// the block before handed on; what it saves, views, aliases and needs is drawn, and parameters with
// it.
Graph random_block_graph(std::size_t block_count, Random& random);

// The blocks of either as half-open ranges of the order, the loss last.
std::vector<std::pair<std::int32_t, std::int32_t>> block_ranges(const Graph& graph);

}  // namespace cairn::test
