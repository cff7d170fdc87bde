#include <algorithm>

#include "graph/ops/kinds.h"
#include "graph/ops/shapes.h"

// A linear layer whose weight is stored in 8 bits: bitsandbytes 0.50.2, nn.Linear8bitLt without
// fp16 weights, that is LLM.int8() (Dettmers et al. 2022). Inputs above the threshold are data:
// none is counted.

namespace cairn {
namespace {

// int8, one scale a row; the bias is converted to the input's type for good by the first forward
// (nn/modules.py: Linear8bitLt.forward).
std::vector<TensorSketch> linear_8bit_parameters(const OpContext& op) {
  const std::int64_t width = op.attributes.width;
  std::vector<TensorSketch> parameters = {{.suffix = "weight",
                                           .data_type = DataType::kInt8,
                                           .shape = {width, last_dim(op, *op.inputs[0])},
                                           .is_stored = true},
                                          {.suffix = "SCB",
                                           .data_type = DataType::kFloat32,
                                           .shape = {width},
                                           .is_stored = true,
                                           .is_buffer = true}};
  if (op.attributes.bias) {
    parameters.push_back({.suffix = "bias",
                          .data_type = op.inputs[0]->data_type,
                          .shape = {width},
                          .is_stored = true});
  }
  return parameters;
}

struct Sizes {
  std::int64_t input_elements = 0;
  std::int64_t output_elements = 0;
  std::int64_t quantised_input = 0;  // int8, and an fp32 scale a row
  std::int64_t output = 0;
  bool is_half = false;
};

Sizes sizes_of(const OpContext& op) {
  const Tensor& x = *op.inputs[0];
  const std::int64_t rows = row_count(op, x);
  Sizes sizes{.input_elements = product(op, {rows, last_dim(op, x)}),
              .output_elements = product(op, {rows, op.attributes.width}),
              .is_half = x.data_type == DataType::kFloat16};
  sizes.quantised_input = sum(op, {sizes.input_elements, product(op, {rows, 4})});
  sizes.output = product(op, {sizes.output_elements, bytes_per_element(x.data_type)});
  return sizes;
}

// Two moments. backends/cuda/ops.py, int8_vectorwise_quant: the input in fp16, its absolute values,
// which of them are outliers, and the quantised input. backends/default/ops.py, int8_scaled_mm: the
// int32 product, and what it is in fp16 where the output is of another type.
std::int64_t forward_workspace(const OpContext& op, const Sizes& sizes) {
  const std::int64_t half_input = product(op, {sizes.input_elements, 2});
  const std::int64_t quantising = sum(op, {sizes.is_half ? 0 : half_input, half_input,
                                           sizes.input_elements, sizes.quantised_input});
  const std::int64_t multiplying =
      sum(op, {sizes.quantised_input, product(op, {sizes.output_elements, 4}),
               sizes.is_half ? 0 : product(op, {sizes.output_elements, 2})});
  return std::max(quantising - sizes.output, multiplying);
}

// Keeps its input, which only a weight's gradient would read (autograd/_functions.py:
// MatMul8bitLt.forward). Backward makes the weight in the input's type, scaled in place.
OpDerivation derive_linear_8bit(const OpContext& op) {
  const Tensor& x = *op.inputs[0];
  OpDerivation result{.outputs = {{.data_type = x.data_type,
                                   .shape = with_last_dim(x.shape, op.attributes.width)}}};
  const Sizes sizes = sizes_of(op);
  result.workspace_bytes = forward_workspace(op, sizes);
  const std::int64_t flops = product(op, {2, sizes.input_elements, op.attributes.width});
  result.forward = matmul_cost(flops, sizes.is_half ? 6 : 8);
  // What is made on the way is written and read again.
  const std::int64_t int32_output = product(op, {sizes.output_elements, 4});
  const std::int64_t half_output = sizes.is_half ? 0 : product(op, {sizes.output_elements, 2});
  result.forward.moved_bytes =
      sum(op, {x.bytes, op.parameters[0]->bytes, product(op, {2, sizes.quantised_input}),
               product(op, {2, int32_output}), product(op, {2, half_output}), sizes.output});
  if (!x.requires_grad) return result;
  result.saved.inputs.push_back(0);
  const std::int64_t weight =
      product(op, {op.attributes.width, last_dim(op, x), bytes_per_element(x.data_type)});
  const std::int64_t scaling = sum(op, {weight, product(op, {op.attributes.width, 4})});
  result.backward_workspace_bytes = std::max(scaling - x.bytes, weight);
  result.backward = matmul_cost(flops, 3);
  result.backward.moved_bytes =
      sum(op, {sizes.output, op.parameters[0]->bytes, product(op, {2, weight}), x.bytes});
  result.gradient_view_inputs = {0};  // .view(ctx.grad_shape)
  return result;
}

}  // namespace

OpKindInfo linear_8bit_kind() {
  return {.name = "linear_8bit",
          .source = "bitsandbytes: MatMul8bitLt",
          .attributes = {AttributeKey::kWidth, AttributeKey::kBias},
          .required = {AttributeKey::kWidth},
          .parameters = linear_8bit_parameters,
          .derive = derive_linear_8bit,
          .autocast = AutocastList::kNone};
}

}  // namespace cairn
