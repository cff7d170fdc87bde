#include <fmt/format.h>

#include "graph/checked.h"
#include "graph/ops/kinds.h"
#include "graph/ops/shapes.h"

// Pools of images, [batch, channels, height, width].

namespace cairn {
namespace {

std::int64_t pooled_side(const OpContext& op, std::int64_t side) {
  const std::int64_t kernel = op.attributes.kernel;
  const std::int64_t padding = op.attributes.padding;
  if (padding > kernel / 2) {
    refuse(op, fmt::format("a padding of {} is more than half of its kernel {}", padding, kernel));
  }
  const std::int64_t padded =
      checked_add(side, product(op, {2, padding}), "op '{}': its side", op.name);
  if (padded < kernel) {
    refuse(op, fmt::format("a kernel of {0} x {0} does not fit in '{1}' {2}", kernel,
                           op.inputs[0]->name, shape_text(op.inputs[0]->shape)));
  }
  return (padded - kernel) / (op.attributes.stride == 0 ? kernel : op.attributes.stride) + 1;
}

// Saves what it pools, if only for its shape (torch derivatives.yaml: avg_pool2d,
// _adaptive_avg_pool2d).
OpDerivation derive_pool(const OpContext& op, std::int64_t height, std::int64_t width) {
  const ImageDims image = image_dims(op, *op.inputs[0]);
  return {.outputs = {{.data_type = op.inputs[0]->data_type,
                       .shape = {image.batch, image.channels, height, width}}},
          .saved = {.inputs = {0}},
          .forward = memory_bound_cost(),
          .backward = memory_bound_cost()};
}

OpDerivation derive_avg_pool(const OpContext& op) {
  const ImageDims image = image_dims(op, *op.inputs[0]);
  return derive_pool(op, pooled_side(op, image.height), pooled_side(op, image.width));
}

// And the position of each maximum, in int64 (torch derivatives.yaml: max_pool2d_with_indices).
OpDerivation derive_max_pool(const OpContext& op) {
  OpDerivation result = derive_avg_pool(op);
  result.auxiliaries = {
      {.suffix = "indices", .data_type = DataType::kInt64, .shape = result.outputs[0].shape}};
  result.saved.auxiliaries = {0};
  return result;
}

OpDerivation derive_adaptive_avg_pool(const OpContext& op) {
  return derive_pool(op, op.attributes.rows, op.attributes.rows);
}

// One pixel of all: torch takes the mean instead, which saves only sizes
// (aten/src/ATen/native/AdaptiveAveragePooling.cpp).
OpDerivation derive_global_avg_pool(const OpContext& op) {
  OpDerivation result = derive_pool(op, 1, 1);
  result.saved = {};
  return result;
}

}  // namespace

OpKindInfo max_pool2d_kind() {
  return {.name = "max_pool2d",
          .source = "derivatives.yaml: max_pool2d_with_indices",
          .attributes = {AttributeKey::kKernel, AttributeKey::kStride, AttributeKey::kPadding},
          .required = {AttributeKey::kKernel},
          .derive = derive_max_pool,
          .autocast = AutocastList::kNone};
}

OpKindInfo avg_pool2d_kind() {
  return {.name = "avg_pool2d",
          .source = "derivatives.yaml: avg_pool2d",
          .attributes = {AttributeKey::kKernel, AttributeKey::kStride, AttributeKey::kPadding},
          .required = {AttributeKey::kKernel},
          .derive = derive_avg_pool,
          .autocast = AutocastList::kNone};
}

OpKindInfo adaptive_avg_pool2d_kind() {
  return {.name = "adaptive_avg_pool2d",
          .source = "derivatives.yaml: _adaptive_avg_pool2d",
          .attributes = {AttributeKey::kRows},
          .required = {AttributeKey::kRows},
          .derive = derive_adaptive_avg_pool,
          .autocast = AutocastList::kNone};
}

OpKindInfo global_avg_pool_kind() {
  return {.name = "global_avg_pool",
          .source = "AdaptiveAveragePooling.cpp; derivatives.yaml: mean",
          .derive = derive_global_avg_pool,
          .autocast = AutocastList::kNone};
}

}  // namespace cairn
