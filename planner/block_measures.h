#pragma once

#include <cstdint>
#include <vector>

#include "graph/graph.h"
#include "graph/plan.h"
#include "planner/blocks.h"
#include "planner/evaluation.h"
#include "planner/op_costs.h"

// What a plan makes of each block of a chain, read off the simulator's replay of the whole training
// step; in the terms of planner/chain.h.

namespace cairn {

struct BlockMeasure {
  // What the block leaves behind for the backward pass; its input is counted here, not where it is
  // made, and only if it is held.
  std::int64_t held_bytes = 0;
  std::int64_t held_input_bytes = 0;  // its input's share of these
  // The largest step of its forward, and of its recomputes and backward, above what earlier blocks
  // hold; without the gradients of parameters of later blocks.
  std::int64_t forward_peak_bytes = 0;
  std::int64_t backward_peak_bytes = 0;
  // Beside what is held when its recompute begins; 0 without one.
  std::int64_t gradient_bytes = 0;
  std::int64_t recompute_cost = 0;
  // What its backward pass leaves behind beside what is held: gradients of its parameters.
  std::int64_t parameter_gradient_bytes = 0;
};

struct ChainMeasures {
  std::int64_t base_bytes = 0;  // live before forward
  std::int64_t peak_bytes = 0;  // of the training step
  std::vector<BlockMeasure> blocks = {};
};

// Of the last micro-batch, before which gradients of parameters are there if there are several.
// `blocks` must cover the plan's order, which must be the graph's. Throws InputError as `lower`.
ChainMeasures measure_blocks(const Graph& graph, const std::vector<Block>& blocks, const Plan& plan,
                             const Setting& setting, const OpCosts& costs);

}  // namespace cairn
