#pragma once

#include <cstdint>
#include <vector>

#include "graph/graph.h"
#include "graph/ids.h"

// A graph as a chain of blocks: runs of its order between which one tensor with a gradient, and no
// more, is handed on.
//
//   embed | norm attn add | norm mlp add | head | loss     | is a cut; a skip connection that
//         x               h              x      ...          spans a position leaves none there
//
// A cut that one tensor crosses lies behind an articulation op of the gradient path (graph/dag.h),
// or behind its first op. One more lies where what is frozen ends, crossed by a tensor without a
// gradient. Not every articulation op gives one: where a second path lies on both
// sides of it in the order, both cross. Tensors without a gradient (masks, rotary tables), inputs
// and parameters may cross anywhere.

namespace cairn {

struct Block {
  std::int32_t begin = 0;  // positions in Graph::ops, half-open
  std::int32_t end = 0;
  TensorId input = kNoTensor;   // from the block before; kNoTensor for the first
  TensorId output = kNoTensor;  // what the next block reads; the loss, for the last
  std::int32_t kind = 0;        // equal numbers: equal blocks; numbered by first appearance
  // Which of layer_ranges() has all its ops with a Backward; -1 for none.
  std::int32_t layer = -1;

  friend bool operator==(const Block&, const Block&) = default;
};

// At least one block; together they are the whole order. What has no Backward stands in the block
// around it. No op overwrites what crosses a cut, so any run of blocks may be a region. Views that
// cost and save nothing are no blocks of their own.
std::vector<Block> chain_blocks(const Graph& graph);

// A leaf, which its op's Backward holds whatever else is dropped: its bytes are of the block that
// makes it, not of those it is handed to.
bool is_leaf(const Graph& graph, TensorId tensor);

// Whether some op at positions [begin, end) has a Backward: where none has, nothing is saved.
bool has_backward(const Graph& graph, std::int32_t begin, std::int32_t end);

}  // namespace cairn
