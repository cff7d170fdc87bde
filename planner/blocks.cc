#include "planner/blocks.h"

#include <algorithm>
#include <utility>

#include "graph/ops/op_kind.h"
#include "planner/block_kinds.h"
#include "planner/planner.h"

namespace cairn {
namespace {

using LayerRange = std::pair<std::int32_t, std::int32_t>;

struct Cut {
  std::int32_t position = 0;  // before the op at it
  TensorId tensor = kNoTensor;
};

// By tensor: the last op that reads it in forward, or -1.
std::vector<std::int32_t> last_readers(const Graph& graph) {
  std::vector<std::int32_t> last(graph.tensors.size(), -1);
  for (std::size_t i = 0; i < graph.ops.size(); ++i) {
    for (const TensorId input : graph.ops[i].inputs) {
      last[index(input)] = static_cast<std::int32_t>(i);
    }
  }
  return last;
}

// By storage: the last op that writes over it in place, or -1.
std::vector<std::int32_t> last_writers(const Graph& graph) {
  std::vector<std::int32_t> last(graph.storages.size(), -1);
  for (std::size_t i = 0; i < graph.ops.size(); ++i) {
    if (!graph.ops[i].in_place) continue;
    last[index(graph.tensor(graph.ops[i].inputs[0]).storage)] = static_cast<std::int32_t>(i);
  }
  return last;
}

// By position: the one tensor with a gradient that is made before it and read from it on, or
// kNoTensor where there are none or several, or where one that was overwritten crosses it.
std::vector<TensorId> single_crossings(const Graph& graph) {
  const std::vector<std::int32_t> last_reader = last_readers(graph);
  const std::vector<std::int32_t> last_writer = last_writers(graph);
  const std::size_t size = graph.ops.size() + 2;
  std::vector<std::int32_t> count(size, 0);  // all three as differences between neighbours
  std::vector<std::int64_t> sum_of_ids(size, 0);
  std::vector<std::int32_t> overwritten(size, 0);
  for (std::size_t i = 0; i < graph.tensors.size(); ++i) {
    const Tensor& tensor = graph.tensors[i];
    if (tensor.producer == kNoOp) continue;
    const std::size_t first = index(tensor.producer) + 1;
    if (last_reader[i] < 0) continue;
    const std::size_t behind = static_cast<std::size_t>(last_reader[i]) + 1;
    if (behind <= first) continue;
    if (tensor.has_gradient) {
      ++count[first];
      --count[behind];
      sum_of_ids[first] += static_cast<std::int64_t>(i);
      sum_of_ids[behind] -= static_cast<std::int64_t>(i);
    }
    if (last_writer[index(tensor.storage)] > static_cast<std::int32_t>(tensor.producer)) {
      ++overwritten[first];
      --overwritten[behind];
    }
  }
  std::vector<TensorId> crossing(graph.ops.size() + 1, kNoTensor);
  for (std::size_t i = 1; i < crossing.size(); ++i) {
    count[i] += count[i - 1];
    sum_of_ids[i] += sum_of_ids[i - 1];
    overwritten[i] += overwritten[i - 1];
    if (count[i] == 1 && overwritten[i] == 0) crossing[i] = static_cast<TensorId>(sum_of_ids[i]);
  }
  return crossing;
}

// How well a cut at the position fits the layers: behind one best, before one next.
std::vector<int> layer_fit(const Graph& graph, const std::vector<LayerRange>& layers) {
  std::vector<int> fit(graph.ops.size() + 1, 0);
  for (const auto& [begin, end] : layers) {
    fit[static_cast<std::size_t>(begin)] = std::max(fit[static_cast<std::size_t>(begin)], 1);
    fit[static_cast<std::size_t>(end)] = 2;
  }
  return fit;
}

// One cut for each tensor that crosses alone: where it fits the layers best, else the earliest.
std::vector<Cut> find_cuts(const Graph& graph, const std::vector<LayerRange>& layers) {
  const auto has_backward = [](const Op& op) { return op.has_backward; };
  const auto last = std::find_if(graph.ops.rbegin(), graph.ops.rend(), has_backward);
  const auto end = static_cast<std::size_t>(graph.ops.rend() - last);
  const std::vector<TensorId> crossing = single_crossings(graph);
  const std::vector<int> fit = layer_fit(graph, layers);
  std::vector<Cut> cuts;
  for (std::size_t i = 1; i < end; ++i) {
    if (crossing[i] == kNoTensor) continue;
    if (cuts.empty() || cuts.back().tensor != crossing[i]) {
      cuts.push_back({.position = static_cast<std::int32_t>(i), .tensor = crossing[i]});
    } else if (fit[i] > fit[static_cast<std::size_t>(cuts.back().position)]) {
      cuts.back().position = static_cast<std::int32_t>(i);
    }
  }
  return cuts;
}

// Before the first layer with a Backward, where nothing before it has one and it reads one tensor
// of that: what is frozen is a block of its own, so that a region need not begin with it.
void add_cut_behind_frozen(const Graph& graph, std::vector<Cut>& cuts) {
  const std::vector<LayerRange> layers = layers_with_backward(graph);
  if (layers.empty() || layers[0].first == 0) return;
  const std::int32_t position = layers[0].first;
  if (has_backward(graph, 0, position)) return;
  const std::vector<std::int32_t> last_reader = last_readers(graph);
  const std::vector<std::int32_t> last_writer = last_writers(graph);
  TensorId crossing = kNoTensor;
  for (std::size_t i = 0; i < graph.tensors.size(); ++i) {
    const Tensor& tensor = graph.tensors[i];
    if (tensor.producer == kNoOp || static_cast<std::int32_t>(tensor.producer) >= position)
      continue;
    if (last_reader[i] < position) continue;
    if (crossing != kNoTensor || last_writer[index(tensor.storage)] >= position) return;
    crossing = static_cast<TensorId>(i);
  }
  if (crossing == kNoTensor || (!cuts.empty() && cuts[0].position <= position)) return;
  cuts.insert(cuts.begin(), {.position = position, .tensor = crossing});
}

std::vector<Block> blocks_between(const Graph& graph, const std::vector<Cut>& cuts) {
  std::vector<Block> blocks;
  Block block;
  for (const Cut& cut : cuts) {
    block.end = cut.position;
    block.output = cut.tensor;
    blocks.push_back(block);
    block = {.begin = cut.position, .input = cut.tensor};
  }
  block.end = static_cast<std::int32_t>(graph.ops.size());
  block.output = graph.loss;
  blocks.push_back(block);
  return blocks;
}

void find_layers(const Graph& graph, const std::vector<LayerRange>& layers,
                 std::vector<Block>& blocks) {
  std::size_t layer = 0;
  for (Block& block : blocks) {
    std::int32_t first = -1;
    std::int32_t last = -1;
    for (std::int32_t i = block.begin; i < block.end; ++i) {
      if (!graph.ops[static_cast<std::size_t>(i)].has_backward) continue;
      if (first < 0) first = i;
      last = i;
    }
    if (first < 0) continue;
    while (layer < layers.size() && layers[layer].second <= first) ++layer;
    if (layer == layers.size()) return;
    if (layers[layer].first <= first && last < layers[layer].second) {
      block.layer = static_cast<std::int32_t>(layer);
    }
  }
}

bool is_free_view(const Graph& graph, const Op& op) {
  const auto is_resident_tensor = [&](TensorId id) { return is_resident(graph.tensor(id)); };
  return op.auxiliaries.empty() && op.workspace_bytes == 0 && op.backward_workspace_bytes == 0 &&
         !op.in_place && op.sweep_workspace_bytes.value_or(0) == 0 &&
         std::all_of(op.outputs.begin(), op.outputs.end(),
                     [&](TensorId id) { return is_view(graph, id); }) &&
         std::all_of(op.saved.begin(), op.saved.end(), is_resident_tensor);
}

// Blocks of nothing but views become part of the block behind them, or of the one before; blocks of
// different layers stay apart.
void merge_views(const Graph& graph, std::vector<Block>& blocks) {
  const bool has_layers = graph.block_count > 0;
  const auto may_merge = [&](const Block& a, const Block& b) {
    return !has_layers || a.layer == b.layer;
  };
  std::vector<Block> merged;
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    Block block = blocks[i];
    const auto first = graph.ops.begin() + block.begin;
    const bool is_free = std::all_of(first, graph.ops.begin() + block.end,
                                     [&](const Op& op) { return is_free_view(graph, op); });
    if (is_free && i + 1 < blocks.size() && may_merge(block, blocks[i + 1])) {
      blocks[i + 1].begin = block.begin;
      blocks[i + 1].input = block.input;
    } else if (is_free && !merged.empty() && may_merge(merged.back(), block)) {
      merged.back().end = block.end;
      merged.back().output = block.output;
    } else {
      merged.push_back(block);
    }
  }
  blocks = std::move(merged);
}

}  // namespace

bool is_leaf(const Graph& graph, TensorId tensor) {
  const OpId producer = graph.tensor(tensor).producer;
  return producer != kNoOp && graph.op(producer).kind != nullptr &&
         graph.op(producer).kind->makes_leaf;
}

bool has_backward(const Graph& graph, std::int32_t begin, std::int32_t end) {
  return std::any_of(graph.ops.begin() + begin, graph.ops.begin() + end,
                     [](const Op& op) { return op.has_backward; });
}

std::vector<Block> chain_blocks(const Graph& graph) {
  const std::vector<LayerRange> layers = layer_ranges(graph);
  std::vector<Cut> cuts = find_cuts(graph, layers);
  add_cut_behind_frozen(graph, cuts);
  std::vector<Block> blocks = blocks_between(graph, cuts);
  find_layers(graph, layers, blocks);
  merge_views(graph, blocks);
  for (Block& block : blocks) block.layer = -1;
  find_layers(graph, layers, blocks);
  number_kinds(graph, blocks);
  return blocks;
}

}  // namespace cairn
