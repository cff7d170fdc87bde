#include <fmt/format.h>

#include <utility>

#include "graph/ops/kinds.h"
#include "graph/ops/shapes.h"

// What DoRA's adapters make of a weight: products with ones on a diagonal, lengths of rows.

namespace cairn {
namespace {

// Ones on the diagonal of [n, n], n the input's last dim: of the input it takes nothing else.
OpDerivation derive_eye(const OpContext& op) {
  const std::int64_t width = last_dim(op, *op.inputs[0]);
  return {.outputs = {{.data_type = *op.attributes.data_type, .shape = {width, width}}},
          .forward = {.moved_bytes =
                          product(op, {width, width, bytes_per_element(*op.attributes.data_type)}),
                      .kernel_count = 1}};
}

// Rows as columns, a view.
OpDerivation derive_transpose(const OpContext& op) {
  Shape shape = op.inputs[0]->shape;
  if (shape.size() != 2) {
    refuse(op, fmt::format("'{}' must be [rows, columns], found {}", op.inputs[0]->name,
                           shape_text(shape)));
  }
  std::swap(shape[0], shape[1]);
  return whole_view(op, std::move(shape));
}

OpDerivation derive_detach(const OpContext& op) { return whole_view(op, op.inputs[0]->shape); }

void refuse_gradient(const OpContext& op) {
  if (!op.inputs[0]->requires_grad) return;
  refuse(op, fmt::format("'{}' requires a gradient, of which its kind knows nothing",
                         op.inputs[0]->name));
}

// The length of each row of [rows, n]: [rows].
OpDerivation derive_row_norm(const OpContext& op) {
  refuse_gradient(op);
  const Tensor& input = *op.inputs[0];
  if (input.shape.size() != 2) {
    refuse(op,
           fmt::format("'{}' must be [rows, n], found {}", input.name, shape_text(input.shape)));
  }
  return {.outputs = {{.data_type = input.data_type, .shape = {input.shape[0]}}},
          .forward = memory_bound_cost()};
}

std::vector<TensorSketch> weight_over_parameters(const OpContext& op) {
  return {{.suffix = "weight", .shape = op.inputs[0]->shape}};
}

// weight / x: saves x for the weight's gradient (derivatives.yaml: div).
OpDerivation derive_weight_over(const OpContext& op) {
  refuse_gradient(op);
  const Tensor& input = *op.inputs[0];
  const Tensor& weight = *op.parameters[0];
  OpDerivation result{.outputs = {{.data_type = promoted_type(weight.data_type, input.data_type),
                                   .shape = input.shape}},
                      .forward = memory_bound_cost(),
                      .backward = memory_bound_cost()};
  if (weight.requires_grad) result.saved.inputs = {0};
  return result;
}

}  // namespace

OpKindInfo eye_kind() {
  return {.name = "eye",
          .source = "torch.eye",
          .attributes = {AttributeKey::kDataType},
          .required = {AttributeKey::kDataType},
          .is_detached = true,
          .derive = derive_eye,
          .autocast = AutocastList::kNone};
}

OpKindInfo transpose_kind() {
  return {.name = "transpose",
          .source = "derivatives.yaml: t",
          .derive = derive_transpose,
          .autocast = AutocastList::kNone};
}

OpKindInfo detach_kind() {
  return {.name = "detach",
          .source = "derivatives.yaml: detach",
          .is_detached = true,
          .derive = derive_detach,
          .autocast = AutocastList::kNone};
}

OpKindInfo row_norm_kind() {
  return {.name = "row_norm",
          .source = "torch.linalg.vector_norm",
          .derive = derive_row_norm,
          .autocast = AutocastList::kFloat32};
}

OpKindInfo weight_over_kind() {
  return {.name = "weight_over",
          .source = "derivatives.yaml: div",
          .parameters = weight_over_parameters,
          .derive = derive_weight_over,
          .autocast = AutocastList::kNone};
}

}  // namespace cairn
