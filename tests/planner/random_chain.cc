#include "tests/planner/random_chain.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "graph/graph_builder.h"

namespace cairn::test {
namespace {

// In [least, most].
std::int64_t between(Random& random, std::int64_t least, std::int64_t most) {
  return least +
         static_cast<std::int64_t>(pick(random, static_cast<std::size_t>(most - least + 1)));
}

class BlockGraphMaker {
 public:
  explicit BlockGraphMaker(Random& random) : random_(random) {}

  Graph make(std::size_t block_count) {
    TensorId last = builder_.add_input_bytes("x", between(random_, 0, 8), true);
    for (std::size_t i = 0; i < block_count; ++i)
      last = add_block(static_cast<std::int32_t>(i), last);
    CustomOp loss{.name = "loss", .inputs = {last}, .outputs = {{.name = "loss", .bytes = 1}}};
    loss.saved = {builder_.tensor(last).name};
    loss.forward.time_ns = 1;
    loss.backward.time_ns = 1;
    return builder_.build(builder_.add_custom(loss)[0]);
  }

 private:
  // Returns what the block hands on: what its last op makes.
  TensorId add_block(std::int32_t block, TensorId input) {
    std::vector<TensorId> values = {input};
    std::vector<TensorId> unread;
    const std::size_t op_count = 1 + pick(random_, 4);
    for (std::size_t i = 0; i < op_count; ++i) {
      CustomOp op{.name = fmt::format("b{}.{}", block, i), .block = block};
      op.inputs = {values[pick(random_, values.size())]};
      if (i == 0) op.inputs = {input};
      if (one_in(random_, 2)) add_input(op, values[pick(random_, values.size())]);
      if (i + 1 == op_count) {
        for (const TensorId value : unread) add_input(op, value);
      }
      if (one_in(random_, 3)) op.inputs.push_back(add_parameter(op.name));
      for (const TensorId read : op.inputs) std::erase(unread, read);
      values.push_back(add_op(op));
      unread.push_back(values.back());
    }
    return values.back();
  }

  static void add_input(CustomOp& op, TensorId value) {
    if (std::count(op.inputs.begin(), op.inputs.end(), value) == 0) op.inputs.push_back(value);
  }

  TensorId add_parameter(const std::string& op_name) {
    return builder_.add_parameter_bytes(op_name + ".weight", between(random_, 0, 4),
                                        !one_in(random_, 4));
  }

  TensorId add_op(CustomOp& op) {
    CustomTensor made{.name = op.name + ".out", .bytes = between(random_, 1, 8)};
    if (one_in(random_, 6)) {
      made.view_of = op.inputs[0];
      made.bytes = builder_.tensor(made.view_of).bytes;
    }
    for (const TensorId input : op.inputs) {
      const Tensor& tensor = builder_.tensor(input);
      if (one_in(random_, 2)) op.saved.push_back(tensor.name);
      if (tensor.role != TensorRole::kParameter && tensor.bytes == made.bytes &&
          one_in(random_, 2)) {
        op.gradient_aliases.push_back(tensor.name);
      }
    }
    if (one_in(random_, 3)) op.saved.push_back(made.name);
    if (one_in(random_, 3)) {
      op.auxiliaries = {{.name = op.name + ".aux", .bytes = between(random_, 1, 12)}};
      op.saved.push_back(op.auxiliaries[0].name);
      if (one_in(random_, 3)) op.sweep_workspace_bytes = between(random_, 0, 4);
    }
    if (one_in(random_, 3)) op.workspace_bytes = between(random_, 0, 8);
    if (one_in(random_, 3)) op.backward_workspace_bytes = between(random_, 0, 8);
    if (one_in(random_, 10)) op.recompute = RecomputePolicy::kReplayRandom;
    op.saves_after_forward = one_in(random_, 6);
    op.forward.time_ns = between(random_, 1, 9);
    op.backward.time_ns = 2 * *op.forward.time_ns;
    op.outputs = {made};
    return builder_.add_custom(op)[0];
  }

  Random& random_;
  GraphBuilder builder_{"blocks", DataType::kFloat32};
};

}  // namespace

LayerChain random_layer_chain(std::size_t layer_count, Random& random) {
  LayerChain chain{.input_bytes = between(random, 0, 8)};
  for (std::size_t i = 0; i < layer_count; ++i) {
    const bool is_loss = i + 1 == layer_count;
    chain.layers.push_back(
        {.output_bytes = is_loss ? between(random, 0, 1) : between(random, 1, 8),
         .auxiliary_bytes = between(random, 1, 12),
         .workspace_bytes = one_in(random, 2) ? between(random, 0, 12) : 0,
         .sweep_workspace_bytes = one_in(random, 2) ? between(random, 0, 8) : 0,
         .backward_workspace_bytes = one_in(random, 2) ? between(random, 0, 8) : 0,
         .forward_ns = between(random, 1, 9)});
  }
  return chain;
}

Graph chain_graph(const LayerChain& chain) {
  GraphBuilder builder("chain", DataType::kFloat32);
  TensorId x = builder.add_input_bytes("x0", chain.input_bytes, true);
  for (std::size_t i = 0; i < chain.layers.size(); ++i) {
    const ChainLayer& layer = chain.layers[i];
    const bool is_loss = i + 1 == chain.layers.size();
    const std::string output = fmt::format("x{}", i + 1);
    const std::string auxiliary = fmt::format("state{}", i);
    x = builder.add_custom({.name = is_loss ? "loss" : fmt::format("layer{}", i),
                            .inputs = {x},
                            .outputs = {{.name = output, .bytes = layer.output_bytes}},
                            .auxiliaries = {{.name = auxiliary, .bytes = layer.auxiliary_bytes}},
                            .saved = {fmt::format("x{}", i), output, auxiliary},
                            .workspace_bytes = layer.workspace_bytes,
                            .backward_workspace_bytes = layer.backward_workspace_bytes,
                            .sweep_workspace_bytes = layer.sweep_workspace_bytes,
                            .forward = {.time_ns = layer.forward_ns},
                            .backward = {.time_ns = 2 * layer.forward_ns},
                            .block = is_loss ? -1 : static_cast<std::int32_t>(i)})[0];
  }
  return builder.build(x);
}

Chain chain_numbers(const LayerChain& chain) {
  Chain numbers{.base_bytes = chain.input_bytes};
  for (std::size_t i = 0; i < chain.layers.size(); ++i) {
    const ChainLayer& layer = chain.layers[i];
    // x0 is live anyway; its gradient is not.
    const std::int64_t gradient = i == 0 ? chain.input_bytes : chain.layers[i - 1].output_bytes;
    const std::int64_t input = i == 0 ? 0 : gradient;
    const std::int64_t state = input + layer.output_bytes + layer.auxiliary_bytes;
    const std::int64_t forward = state + layer.workspace_bytes;
    const std::int64_t backward =
        state + gradient + layer.output_bytes + layer.backward_workspace_bytes;
    numbers.blocks.push_back(
        {.kind = static_cast<std::int32_t>(i),
         .input_bytes = input,
         .sweep_peak_bytes = input + layer.output_bytes + layer.sweep_workspace_bytes,
         .sweep_cost = layer.forward_ns,
         .held_bytes = input + layer.auxiliary_bytes,
         .forward_peak_bytes = forward,
         .backward_peak_bytes = backward,
         .inner_held_bytes = input + layer.auxiliary_bytes,
         .inner_forward_peak_bytes = forward,
         .inner_backward_peak_bytes = backward,
         .last_peak_bytes = std::max(forward + layer.output_bytes, backward),
         .last_cost = layer.forward_ns,
         .gradient_bytes = layer.output_bytes});
  }
  return numbers;
}

Graph random_block_graph(std::size_t block_count, Random& random) {
  return BlockGraphMaker(random).make(block_count);
}

std::vector<std::pair<std::int32_t, std::int32_t>> block_ranges(const Graph& graph) {
  std::vector<std::pair<std::int32_t, std::int32_t>> ranges;
  for (std::size_t i = 0; i < graph.ops.size(); ++i) {
    const auto position = static_cast<std::int32_t>(i);
    if (i == 0 || graph.ops[i].block != graph.ops[i - 1].block)
      ranges.emplace_back(position, position);
    ranges.back().second = position + 1;
  }
  return ranges;
}

}  // namespace cairn::test
