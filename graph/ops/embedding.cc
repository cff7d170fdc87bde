#include "graph/ops/kinds.h"
#include "graph/ops/shapes.h"

namespace cairn {
namespace {

std::vector<TensorSketch> embedding_parameters(const OpContext& op) {
  return {{.suffix = "weight", .shape = {op.attributes.rows, op.attributes.width}}};
}

// Saves the ids (int64, an input of the graph); reads only the rows it looks up.
OpDerivation derive_embedding(const OpContext& op) {
  const Tensor& ids = *op.inputs[0];
  const Tensor& weight = *op.parameters[0];
  Shape shape = ids.shape;
  shape.push_back(op.attributes.width);
  OpDerivation result{.outputs = {{.data_type = weight.data_type, .shape = shape}}};
  if (weight.requires_grad) result.saved.inputs = {0};
  const std::int64_t looked_up_bytes =
      product(op, {element_count(shape, op.name), bytes_per_element(weight.data_type)});
  result.forward = {.moved_bytes = product(op, {2, looked_up_bytes})};
  result.backward = {.moved_bytes = product(op, {2, looked_up_bytes})};
  return result;
}

}  // namespace

OpKindInfo embedding_kind() {
  return {.name = "embedding",
          .source = "derivatives.yaml: embedding",
          .integer_inputs = {0},
          .attributes = {AttributeKey::kRows, AttributeKey::kWidth},
          .required = {AttributeKey::kRows, AttributeKey::kWidth},
          .parameters = embedding_parameters,
          .derive = derive_embedding,
          .autocast = AutocastList::kNone};
}

}  // namespace cairn
