#pragma once

#include <cstdint>
#include <vector>

#include "graph/ids.h"

// A training step as a chain of blocks, in the numbers that a planner needs of each. Block i reads
// x_i, the one tensor with a gradient that the blocks before hand on, and makes x_{i+1}. The last
// block makes the loss and is always kept.
//
// "Held" are the bytes that earlier blocks left behind for backward; x_i is not among them, but is
// counted by block i. Peaks are above what is held before the block, and leave out the gradients of
// the parameters of later blocks, which are there during its backward pass.
//
//   held before |#####|          forward of block i:   |#####| x_i | what it makes, workspaces |
//                                and behind it:        |#####| held by i | x_{i+1}             |

namespace cairn {

struct ChainBlock {
  std::int32_t kind = 0;         // equal blocks have equal kinds, and all numbers below equal
  std::int64_t input_bytes = 0;  // x_i, which a region that begins here holds for its recompute
  // Forward that keeps nothing: its largest step (x_i included), and its cost.
  std::int64_t sweep_peak_bytes = 0;
  std::int64_t sweep_cost = 0;
  // Kept whole, in the root: what it adds to what is held, largest step of forward, of backward.
  std::int64_t held_bytes = 0;
  std::int64_t forward_peak_bytes = 0;
  std::int64_t backward_peak_bytes = 0;
  // The same in the recompute of a region, which holds x_i if it begins with this block.
  std::int64_t inner_held_bytes = 0;
  std::int64_t inner_forward_peak_bytes = 0;
  std::int64_t inner_backward_peak_bytes = 0;
  // As the last block of a region: largest step of its recompute and backward, x_i included; what
  // its recompute costs, which may stop early.
  std::int64_t last_peak_bytes = 0;
  std::int64_t last_cost = 0;
  // Live beside what is held when a region that ends with this block is recomputed: gradients.
  std::int64_t gradient_bytes = 0;
  // Of its parameters, live from its backward pass on.
  std::int64_t parameter_gradient_bytes = 0;
};

// A region of the root over blocks [begin, end) with a keep list and no region inside.
struct KeepOption {
  std::int32_t begin = 0;
  std::int32_t end = 0;
  std::vector<TensorId> keep = {};
  std::int64_t held_bytes = 0;  // x_begin included
  std::int64_t forward_peak_bytes = 0;
  std::int64_t backward_peak_bytes = 0;  // of recompute and backward
  std::int64_t extra_cost = 0;
};

struct Chain {
  std::vector<ChainBlock> blocks = {};
  std::vector<KeepOption> options = {};
  std::int64_t base_bytes = 0;  // live throughout: a budget minus these is what blocks may use
};

}  // namespace cairn
