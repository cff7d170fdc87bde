#include "graph/ops/kinds.h"
#include "graph/ops/shapes.h"

namespace cairn {
namespace {

std::vector<TensorSketch> batch_norm_parameters(const OpContext& op) {
  const std::int64_t channels = image_dims(op, *op.inputs[0]).channels;
  return {{.suffix = "weight", .shape = {channels}}, {.suffix = "bias", .shape = {channels}}};
}

// Saves its input, its weight and the batch's mean and 1 / deviation of each channel in fp32 (torch
// derivatives.yaml: native_batch_norm). It also updates the running statistics, which a recompute
// must not do again. Those are buffers, live for the whole step: 2 numbers a channel, not counted.
OpDerivation derive_batch_norm(const OpContext& op) {
  const Tensor& input = *op.inputs[0];
  const Shape channels = {image_dims(op, input).channels};
  return {.outputs = {{.data_type = input.data_type, .shape = input.shape}},
          .auxiliaries = {{.suffix = "mean", .data_type = DataType::kFloat32, .shape = channels},
                          {.suffix = "invstd", .data_type = DataType::kFloat32, .shape = channels}},
          .saved = {.inputs = {0, 1}, .auxiliaries = {0, 1}},
          .forward = memory_bound_cost(),
          .backward = memory_bound_cost(),
          .side_effect = SideEffect::kOnce};
}

}  // namespace

OpKindInfo batch_norm_kind() {
  return {.name = "batch_norm",
          .source = "derivatives.yaml: native_batch_norm",
          .attributes = {AttributeKey::kConstant},
          .parameters = batch_norm_parameters,
          .derive = derive_batch_norm,
          .autocast = AutocastList::kNone};
}

}  // namespace cairn
