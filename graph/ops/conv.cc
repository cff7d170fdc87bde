#include <fmt/format.h>

#include "graph/checked.h"
#include "graph/ops/kinds.h"
#include "graph/ops/shapes.h"

// Convolutions of images, [batch, channels, height, width]. They save their input and their weight
// even where only one of them has a gradient: torch derivatives.yaml has one formula for both.
// cuDNN chooses an algorithm by its own measurements, and with it a workspace: not known here.

namespace cairn {
namespace {

std::int64_t stride_of(const OpContext& op) {
  return op.attributes.stride == 0 ? 1 : op.attributes.stride;
}

std::int64_t groups_of(const OpContext& op) {
  return op.attributes.groups == 0 ? 1 : op.attributes.groups;
}

std::vector<TensorSketch> with_bias(const OpContext& op, Shape weight) {
  std::vector<TensorSketch> parameters = {{.suffix = "weight", .shape = std::move(weight)}};
  if (op.attributes.bias) parameters.push_back({.suffix = "bias", .shape = {op.attributes.width}});
  return parameters;
}

std::vector<TensorSketch> conv_parameters(const OpContext& op) {
  const std::int64_t channels = image_dims(op, *op.inputs[0]).channels;
  const std::int64_t groups = groups_of(op);
  if (channels % groups != 0 || op.attributes.width % groups != 0) {
    refuse(op, fmt::format("{} channels to {} do not divide into {} groups", channels,
                           op.attributes.width, groups));
  }
  const std::int64_t kernel = op.attributes.kernel;
  return with_bias(op, {op.attributes.width, channels / groups, kernel, kernel});
}

std::vector<TensorSketch> conv_transpose_parameters(const OpContext& op) {
  const std::int64_t kernel = op.attributes.kernel;
  return with_bias(op,
                   {image_dims(op, *op.inputs[0]).channels, op.attributes.width, kernel, kernel});
}

std::int64_t conv_side(const OpContext& op, std::int64_t side) {
  const std::int64_t padded =
      checked_add(side, product(op, {2, op.attributes.padding}), "op '{}': its side", op.name);
  if (padded < op.attributes.kernel) {
    refuse(op, fmt::format("a kernel of {0} x {0} does not fit in '{1}' {2}, padding {3}",
                           op.attributes.kernel, op.inputs[0]->name,
                           shape_text(op.inputs[0]->shape), op.attributes.padding));
  }
  return (padded - op.attributes.kernel) / stride_of(op) + 1;
}

std::int64_t conv_transpose_side(const OpContext& op, std::int64_t side) {
  const std::int64_t whole = checked_add(product(op, {side - 1, stride_of(op)}),
                                         op.attributes.kernel, "op '{}': its side", op.name);
  const std::int64_t cut = product(op, {2, op.attributes.padding});
  if (whole <= cut) refuse(op, fmt::format("a padding of {} leaves nothing", cut / 2));
  return whole - cut;
}

// Multiplies and adds each element of the weight once for each of `positions`: as torch's counter
// (torch/utils/flop_counter.py, conv_flop_count), which takes output positions for a convolution
// and input positions for a transposed one. Each gradient costs the same again. (For groups the
// counter takes the weight's gradient for `groups` times what it is; here it is what it is.)
OpDerivation derive_convolution(const OpContext& op, Shape output, std::int64_t positions) {
  const Tensor& input = *op.inputs[0];
  const Tensor& weight = *op.parameters[0];
  OpDerivation result{.outputs = {{.data_type = input.data_type, .shape = std::move(output)}}};
  if (input.requires_grad || weight.requires_grad) result.saved.inputs = {0, 1};
  const std::int64_t product_flops =
      product(op, {2, positions, element_count(weight.shape, weight.name)});
  const int gradients = (weight.requires_grad ? 1 : 0) + (input.requires_grad ? 1 : 0);
  result.forward = matmul_cost(product_flops, 1);
  result.backward = matmul_cost(product(op, {gradients, product_flops}), gradients);
  return result;
}

OpDerivation derive_conv(const OpContext& op) {
  const ImageDims image = image_dims(op, *op.inputs[0]);
  const std::int64_t height = conv_side(op, image.height);
  const std::int64_t width = conv_side(op, image.width);
  return derive_convolution(op, {image.batch, op.attributes.width, height, width},
                            product(op, {image.batch, height, width}));
}

OpDerivation derive_conv_transpose(const OpContext& op) {
  const ImageDims image = image_dims(op, *op.inputs[0]);
  return derive_convolution(
      op,
      {image.batch, op.attributes.width, conv_transpose_side(op, image.height),
       conv_transpose_side(op, image.width)},
      product(op, {image.batch, image.height, image.width}));
}

}  // namespace

OpKindInfo conv2d_kind() {
  return {.name = "conv2d",
          .source = "derivatives.yaml: convolution",
          .attributes = {AttributeKey::kWidth, AttributeKey::kKernel, AttributeKey::kStride,
                         AttributeKey::kPadding, AttributeKey::kGroups, AttributeKey::kBias},
          .required = {AttributeKey::kWidth, AttributeKey::kKernel},
          .parameters = conv_parameters,
          .derive = derive_conv,
          .autocast = AutocastList::kLowerPrecision};
}

OpKindInfo conv_transpose2d_kind() {
  return {.name = "conv_transpose2d",
          .source = "derivatives.yaml: convolution",
          .attributes = {AttributeKey::kWidth, AttributeKey::kKernel, AttributeKey::kStride,
                         AttributeKey::kPadding, AttributeKey::kBias},
          .required = {AttributeKey::kWidth, AttributeKey::kKernel},
          .parameters = conv_transpose_parameters,
          .derive = derive_conv_transpose,
          .autocast = AutocastList::kLowerPrecision};
}

}  // namespace cairn
