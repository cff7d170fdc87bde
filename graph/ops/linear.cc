#include <fmt/format.h>

#include "graph/ops/kinds.h"
#include "graph/ops/shapes.h"

namespace cairn {
namespace {

std::vector<TensorSketch> linear_parameters(const OpContext& op) {
  const std::int64_t in = last_dim(op, *op.inputs[0]);
  std::vector<TensorSketch> parameters = {{.suffix = "weight", .shape = {op.attributes.width, in}}};
  if (op.attributes.bias) parameters.push_back({.suffix = "bias", .shape = {op.attributes.width}});
  return parameters;
}

// Saves its input for the weight's gradient and its weight for the input's gradient
// (torch derivatives.yaml: mm); a frozen weight keeps no input. With a dtype of its own the builder
// casts weight and bias, and the copy is what is saved. 2 * rows * in * out FLOPs each for
// the output, the input's gradient and the weight's gradient.
OpDerivation derive_linear(const OpContext& op) {
  const Tensor& input = *op.inputs[0];
  const Tensor& weight = *op.parameters[0];
  OpDerivation result{.outputs = {{.data_type = input.data_type,
                                   .shape = with_last_dim(input.shape, op.attributes.width)}}};
  if (weight.requires_grad) result.saved.inputs.push_back(0);
  if (op.attributes.data_type && *op.attributes.data_type != input.data_type) {
    refuse(op,
           fmt::format("its dtype is {}, its input is {}", data_type_name(*op.attributes.data_type),
                       data_type_name(input.data_type)));
  }
  if (input.requires_grad) result.saved.inputs.push_back(1);
  const std::int64_t product_flops =
      product(op, {2, row_count(op, input), last_dim(op, input), op.attributes.width});
  const int gradients = (weight.requires_grad ? 1 : 0) + (input.requires_grad ? 1 : 0);
  result.forward = matmul_cost(product_flops, 1);
  result.backward = matmul_cost(product(op, {gradients, product_flops}), gradients);
  // The product takes rows and a transposed weight: both gradients are viewed back
  // (aten/src/ATen/native/Linear.cpp; derivatives.yaml: t, view).
  result.gradient_view_inputs = {1};
  if (input.shape.size() > 2) result.gradient_view_inputs.push_back(0);
  return result;
}

}  // namespace

OpKindInfo linear_kind() {
  return {.name = "linear",
          .source = "derivatives.yaml: mm",
          .attributes = {AttributeKey::kWidth, AttributeKey::kBias, AttributeKey::kDataType},
          .required = {AttributeKey::kWidth},
          .parameters = linear_parameters,
          .derive = derive_linear,
          .autocast = AutocastList::kLowerPrecision,
          .casts_parameters = true};
}

}  // namespace cairn
