#include <algorithm>

#include "graph/ops/kinds.h"
#include "graph/ops/shapes.h"

// A linear layer whose weight is stored in 4 bits: bitsandbytes 0.50.2, nn.Linear4bit, and as it
// was up to 0.42. Of its input's type, which its layer file casts.

namespace cairn {
namespace {

constexpr std::int64_t kBlockElements = 64;         // weights that share a scale
constexpr std::int64_t kNestedBlockElements = 256;  // scales that share one
constexpr std::int64_t kSourceBytes = 2;  // an element, of the 16 bits that it was quantised from

std::int64_t block_count(std::int64_t elements, std::int64_t of_a_block) {
  return (elements - 1) / of_a_block + 1;
}

std::int64_t scale_count(const OpContext& op) {
  const std::int64_t elements = product(op, {op.attributes.width, last_dim(op, *op.inputs[0])});
  return block_count(elements, kBlockElements);
}

TensorSketch buffer(std::string suffix, DataType type, std::int64_t elements) {
  return {.suffix = std::move(suffix),
          .data_type = type,
          .shape = {elements},
          .is_stored = true,
          .is_buffer = true};
}

// The packed weight, what its QuantState has (functional.py: quantize_4bit, quantize_blockwise;
// each layer's own tensors, tables too), and the bias, which the first forward converts to the
// input's type for good (nn/modules.py: Linear4bit.forward).
std::vector<TensorSketch> linear_4bit_parameters(const OpContext& op) {
  const std::int64_t scales = scale_count(op);
  const bool nested = op.attributes.nested;
  std::vector<TensorSketch> parameters = {
      {.suffix = "weight",
       .data_type = op.attributes.fp4 ? DataType::kFp4 : DataType::kNf4,
       .shape = {op.attributes.width, last_dim(op, *op.inputs[0])},
       .is_stored = true},
      buffer("absmax", nested ? DataType::kUInt8 : DataType::kFloat32, scales),
      buffer("quant_map", DataType::kFloat32, 16)};
  if (nested) {
    const std::int64_t groups = block_count(scales, kNestedBlockElements);
    parameters.push_back(buffer("nested_absmax", DataType::kFloat32, groups));
    parameters.push_back(buffer("nested_quant_map", DataType::kFloat32, 256));
    parameters.push_back(buffer("nested_offset", DataType::kFloat32, 1));
  }
  if (op.attributes.bias) {
    parameters.push_back({.suffix = "bias",
                          .data_type = op.inputs[0]->data_type,
                          .shape = {op.attributes.width},
                          .is_stored = true});
  }
  return parameters;
}

// Sizes of one product: x [rows, in] by the weight [out, in], in bytes.
struct Sizes {
  std::int64_t input = 0;
  std::int64_t weight = 0;         // dequantised, in the input's type
  std::int64_t source_weight = 0;  // dequantised, in the type it was quantised from
  std::int64_t scales = 0;         // in fp32, where they are quantised themselves
  // Under autocast, where the product is in another type than the input: copies in that type.
  std::int64_t cast_input = 0;
  std::int64_t cast_weight = 0;
  std::int64_t cast_bias = 0;
};

Sizes sizes_of(const OpContext& op, DataType product_type) {
  const Tensor& x = *op.inputs[0];
  const std::int64_t in = last_dim(op, x);
  const std::int64_t out = op.attributes.width;
  const std::int64_t item = bytes_per_element(x.data_type);
  Sizes sizes{.input = product(op, {row_count(op, x), in, item}),
              .weight = product(op, {out, in, item}),
              .source_weight = product(op, {out, in, kSourceBytes}),
              .scales = op.attributes.nested ? product(op, {scale_count(op), 4}) : 0};
  if (product_type != x.data_type) {
    const std::int64_t cast_item = bytes_per_element(product_type);
    sizes.cast_input = product(op, {row_count(op, x), in, cast_item});
    sizes.cast_weight = product(op, {out, in, cast_item});
    sizes.cast_bias = op.attributes.bias ? product(op, {out, cast_item}) : 0;
  }
  return sizes;
}

// backends/cuda/ops.py: _dequant_linear_fallback. Its locals hold the scales before and behind the
// offset while torch's linear runs. Few rows (at most 512 of a large weight, fewer on most cards)
// may take a kernel that dequantises as it goes; that is not counted.
std::int64_t forward_workspace(const OpContext& op, const Sizes& sizes) {
  return sum(op, {sizes.weight, sizes.scales, sizes.scales, sizes.cast_input, sizes.cast_weight,
                  sizes.cast_bias});
}

// autograd/_functions.py: MatMul4Bit.backward. The weight is dequantised in the type that it was
// quantised from and converted to the gradient's; under autocast the input's gradient comes in the
// product's type, and autograd converts it. Beside that gradient, which is no workspace.
std::int64_t backward_workspace(const OpContext& op, const Sizes& sizes, DataType product_type) {
  const std::int64_t item = bytes_per_element(product_type);
  const std::int64_t elements = sizes.source_weight / kSourceBytes;
  const std::int64_t converted = item == kSourceBytes ? 0 : product(op, {elements, item});
  const std::int64_t factor = converted == 0 ? sizes.source_weight : converted;
  const std::int64_t before = sum(op, {sizes.source_weight, std::max(sizes.scales, converted)});
  const std::int64_t in_product = sum(op, {factor, sizes.cast_input});
  const bool is_cast = sizes.cast_input > 0;
  return std::max(
      {before - sizes.input, is_cast ? in_product - sizes.input : in_product, sizes.cast_input});
}

// What both versions have: outputs and costs.
OpDerivation derive_product(const OpContext& op, DataType product_type, const Sizes& sizes) {
  const Tensor& x = *op.inputs[0];
  OpDerivation result{.outputs = {{.data_type = product_type,
                                   .shape = with_last_dim(x.shape, op.attributes.width)}}};
  const std::int64_t flops =
      product(op, {2, row_count(op, x), last_dim(op, x), op.attributes.width});
  const int scale_kernels = op.attributes.nested ? 2 : 0;
  result.forward = matmul_cost(flops, 2 + scale_kernels);
  const std::int64_t output_bytes = tensor_bytes(product_type, result.outputs[0].shape, op.name);
  // What is dequantised is written and read again.
  result.forward.moved_bytes =
      sum(op, {sizes.input, op.parameters[0]->bytes, sizes.weight, sizes.weight, output_bytes});
  if (x.requires_grad) {
    result.backward = matmul_cost(flops, 2 + scale_kernels);
    result.backward.moved_bytes = sum(op, {output_bytes, op.parameters[0]->bytes,
                                           sizes.source_weight, sizes.source_weight, sizes.input});
  }
  return result;
}

// MatMul4Bit keeps the packed weight alone, by an attribute that no hook of saved tensors sees.
OpDerivation derive_linear_4bit(const OpContext& op) {
  const Tensor& x = *op.inputs[0];
  const DataType product_type = op.attributes.data_type.value_or(x.data_type);
  const Sizes sizes = sizes_of(op, product_type);
  OpDerivation result = derive_product(op, product_type, sizes);
  result.workspace_bytes = forward_workspace(op, sizes);
  if (x.requires_grad) {
    result.backward_workspace_bytes = backward_workspace(op, sizes, product_type);
  }
  return result;
}

// bitsandbytes 0.41.1 and 0.42.0: MatMul4Bit keeps its input as well (autograd/_functions.py:
// ctx.tensors), and the weight was quantised from fp16: dequantised it is there twice where the
// product is of another type, while nothing else of the op is.
OpDerivation derive_linear_4bit_saving_input(const OpContext& op) {
  const Tensor& x = *op.inputs[0];
  const Sizes sizes = sizes_of(op, x.data_type);
  OpDerivation result = derive_product(op, x.data_type, sizes);
  const bool is_converted = x.data_type != DataType::kFloat16;
  const std::int64_t making = is_converted ? sum(op, {sizes.source_weight, sizes.weight})
                                           : sum(op, {sizes.source_weight, sizes.scales});
  const auto beside = [&](std::int64_t made) { return std::max(making - made, sizes.weight); };
  result.workspace_bytes = beside(tensor_bytes(x.data_type, result.outputs[0].shape, op.name));
  if (x.requires_grad) {
    result.saved.inputs = {0};
    result.backward_workspace_bytes = beside(sizes.input);
  }
  return result;
}

}  // namespace

OpKindInfo linear_4bit_kind() {
  return {.name = "linear_4bit",
          .source = "bitsandbytes: MatMul4Bit",
          .attributes = {AttributeKey::kWidth, AttributeKey::kBias, AttributeKey::kFp4,
                         AttributeKey::kNested},
          .required = {AttributeKey::kWidth},
          .parameters = linear_4bit_parameters,
          .derive = derive_linear_4bit,
          .autocast = AutocastList::kLowerPrecisionInside};
}

OpKindInfo linear_4bit_saving_input_kind() {
  return {.name = "linear_4bit_saving_input",
          .source = "bitsandbytes 0.41: MatMul4Bit",
          .attributes = {AttributeKey::kWidth, AttributeKey::kBias, AttributeKey::kFp4,
                         AttributeKey::kNested},
          .required = {AttributeKey::kWidth},
          .parameters = linear_4bit_parameters,
          .derive = derive_linear_4bit_saving_input};
}

}  // namespace cairn
