#include "cli/frozen_layers.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "cli/named_layers.h"
#include "graph/ops/op_kind.h"
#include "graph/plan.h"

namespace cairn {
namespace {

bool is_leaf_op(const Op& op) { return op.kind != nullptr && op.kind->makes_leaf; }

// By op: whether what it makes depends on a trained parameter.
std::vector<bool> trained_ops(const Graph& graph) {
  std::vector<bool> is_trained(graph.ops.size(), false);
  for (std::size_t i = 0; i < graph.ops.size(); ++i) {
    const Op& op = graph.ops[i];
    if (op.kind != nullptr && op.kind->is_detached) continue;
    is_trained[i] = std::any_of(op.inputs.begin(), op.inputs.end(), [&](TensorId id) {
      const Tensor& input = graph.tensor(id);
      return input.producer == kNoOp ? input.requires_grad : is_trained[index(input.producer)];
    });
  }
  return is_trained;
}

// "layers 0-15"; "" for none.
std::string frozen_layers(const Graph& graph) {
  const Plan plan = keep_all_plan(graph);
  const NamedLayers layers(graph, plan);
  const std::vector<bool> is_trained = trained_ops(graph);
  std::vector<std::int32_t> frozen;
  for (std::size_t i = 0; i < layers.all().size(); ++i) {
    const auto first = is_trained.begin() + layers.all()[i].begin;
    const auto last = is_trained.begin() + layers.all()[i].end;
    if (std::find(first, last, true) == last) frozen.push_back(static_cast<std::int32_t>(i));
  }
  return frozen.empty() ? std::string() : layers.text(frozen);
}

}  // namespace

std::vector<std::string> frozen_layer_notes(const Graph& graph) {
  if (!graph.tensor(graph.loss).has_gradient) return {};
  const bool has_leaf = std::any_of(graph.ops.begin(), graph.ops.end(), is_leaf_op);
  const std::string layers = frozen_layers(graph);
  if (!has_leaf) {
    if (layers.empty()) return {};
    return {
        fmt::format("{} keep nothing for the backward: no parameter in them or before them is "
                    "trained",
                    layers)};
  }
  std::vector<std::string> notes = {
      "what the frozen embeddings make requires a gradient, as Transformers has it where it "
      "checkpoints (enable_input_require_grads); --input-require-grads=false is without"};
  if (!layers.empty()) {
    notes.push_back(
        fmt::format("{} keep something for the backward, and run it, for that gradient "
                    "alone: no parameter in them or before them is trained",
                    layers));
  }
  return notes;
}

}  // namespace cairn
