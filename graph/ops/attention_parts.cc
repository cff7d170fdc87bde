#include <fmt/format.h>

#include "graph/checked.h"
#include "graph/ops/kinds.h"
#include "graph/ops/shapes.h"

// Pieces of attention that only some models have: sinks, a learned score for each head that takes
// part in the softmax and has no value, and keys put together from a part of each head and a part
// that all heads share (multi-head latent attention).

namespace cairn {
namespace {

std::vector<TensorSketch> sink_parameters(const OpContext& op) {
  if (op.inputs[0]->shape.size() != 4) {
    refuse(op, fmt::format("'{}' must be [batch, heads, tokens, tokens], found {}",
                           op.inputs[0]->name, shape_text(op.inputs[0]->shape)));
  }
  return {{.suffix = "sinks", .shape = {op.inputs[0]->shape[1]}}};
}

// A column more in the scores: a new storage. The scores' gradient is a slice of the output's.
OpDerivation derive_append_sinks(const OpContext& op) {
  const Tensor& scores = *op.inputs[0];
  return {.outputs = {{.data_type = scores.data_type,
                       .shape = with_last_dim(
                           scores.shape,
                           checked_add(last_dim(op, scores), 1, "op '{}': its columns", op.name))}},
          .gradient_alias_inputs = {0},
          .forward = memory_bound_cost(),
          .backward = memory_bound_cost()};
}

// All columns but the last: a view.
OpDerivation derive_drop_sinks(const OpContext& op) {
  const Tensor& input = *op.inputs[0];
  if (last_dim(op, input) < 2) refuse(op, fmt::format("'{}' has no other column", input.name));
  return partial_view(op, with_last_dim(input.shape, last_dim(op, input) - 1));
}

// [batch, tokens, heads * a] and [batch, tokens, b], of all heads: [batch, tokens, heads * (a +
// b)], a new storage that both are copied into. Backward, autograd's CopySlices, makes a copy of
// the whole gradient.
OpDerivation derive_join_heads(const OpContext& op) {
  const Tensor& own = *op.inputs[0];
  const Tensor& shared = *op.inputs[1];
  const std::int64_t heads = op.attributes.heads;
  check_same_rows(op, own, shared);
  const std::int64_t head_width = checked_add(part_width(op, own, heads, "heads"),
                                              last_dim(op, shared), "op '{}': a head", op.name);
  OpDerivation result{
      .outputs = {{.data_type = own.data_type,
                   .shape = with_last_dim(own.shape, product(op, {heads, head_width}))}},
      .forward = {.kernel_count = 2},
      .backward = {.kernel_count = 5}};
  result.backward_workspace_bytes = product(
      op, {element_count(result.outputs[0].shape, op.name), bytes_per_element(own.data_type)});
  return result;
}

}  // namespace

OpKindInfo append_sinks_kind() {
  return {.name = "append_sinks",
          .source = "derivatives.yaml: expand, cat",
          .parameters = sink_parameters,
          .derive = derive_append_sinks};
}

OpKindInfo drop_sinks_kind() {
  return {.name = "drop_sinks", .source = "derivatives.yaml: slice", .derive = derive_drop_sinks};
}

OpKindInfo join_heads_kind() {
  return {.name = "join_heads",
          .source = "torch/csrc/autograd/functions/tensor.h: CopySlices",
          .min_inputs = 2,
          .max_inputs = 2,
          .attributes = {AttributeKey::kHeads},
          .required = {AttributeKey::kHeads},
          .derive = derive_join_heads};
}

}  // namespace cairn
