#include "planner/chain_from_graph.h"

#include "graph/checked.h"

namespace cairn {
namespace {

std::int64_t input_bytes(const Graph& graph, const Block& block) {
  if (block.input == kNoTensor || is_leaf(graph, block.input)) return 0;
  return graph.storage(graph.tensor(block.input).storage).bytes;
}

std::int64_t forward_cost(const Block& block, const OpCosts& costs) {
  std::int64_t cost = 0;
  for (std::int32_t i = block.begin; i < block.end; ++i) {
    cost = checked_add(cost, costs.forward[static_cast<std::size_t>(i)], "cost of a block");
  }
  return cost;
}

// `kept`: where nothing is a region; `alone`: where the block is one.
ChainBlock chain_block(const Graph& graph, const Block& block, const BlockMeasure& kept,
                       const BlockMeasure& alone, const OpCosts& costs) {
  ChainBlock chained{.kind = block.kind, .input_bytes = input_bytes(graph, block)};
  chained.sweep_peak_bytes = alone.forward_peak_bytes;
  chained.sweep_cost = forward_cost(block, costs);
  chained.held_bytes = kept.held_bytes;
  chained.forward_peak_bytes = kept.forward_peak_bytes;
  chained.backward_peak_bytes = kept.backward_peak_bytes;
  // A region that begins here holds the input all the while.
  const std::int64_t unheld_bytes = chained.input_bytes - kept.held_input_bytes;
  chained.inner_held_bytes = kept.held_bytes + unheld_bytes;
  chained.inner_forward_peak_bytes = kept.forward_peak_bytes + unheld_bytes;
  chained.inner_backward_peak_bytes = kept.backward_peak_bytes + unheld_bytes;
  chained.last_peak_bytes = alone.backward_peak_bytes;
  chained.last_cost = alone.recompute_cost;
  chained.gradient_bytes = alone.gradient_bytes;
  chained.parameter_gradient_bytes = kept.parameter_gradient_bytes;
  return chained;
}

}  // namespace

Plan block_regions(const Graph& graph, const std::vector<Block>& blocks, Extent extent) {
  Plan plan = keep_all_plan(graph);
  plan.extent = extent;
  for (std::size_t b = 0; b + 1 < blocks.size(); ++b) {
    plan.regions.push_back({.begin = blocks[b].begin, .end = blocks[b].end});
  }
  return plan;
}

Chain chain_from_graph(const Graph& graph, const std::vector<Block>& blocks, const Setting& setting,
                       const OpCosts& costs) {
  Plan keep_all = keep_all_plan(graph);
  keep_all.extent = setting.extent;
  const ChainMeasures kept = measure_blocks(graph, blocks, keep_all, setting, costs);
  const Plan regions = block_regions(graph, blocks, setting.extent);
  const ChainMeasures alone = measure_blocks(graph, blocks, regions, setting, costs);
  Chain chain{.base_bytes = kept.base_bytes};
  for (std::size_t b = 0; b < blocks.size(); ++b) {
    chain.blocks.push_back(chain_block(graph, blocks[b], kept.blocks[b], alone.blocks[b], costs));
  }
  return chain;
}

}  // namespace cairn
