#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "graph/error.h"
#include "graph/ops/kinds.h"
#include "graph/ops/shapes.h"

// Losses that have the head, the linear layer that makes the logits, in themselves: inputs are its
// input and the labels. No tensor of all logits is ever made.

namespace cairn {
namespace {

struct HeadSizes {
  std::int64_t rows = 0;      // tokens
  std::int64_t features = 0;  // of the head's input
  std::int64_t classes = 0;
  std::int64_t item_bytes = 0;
  std::int64_t product_flops = 0;
};

HeadSizes head_sizes(const OpContext& op) {
  const Tensor& input = *op.inputs[0];
  const Tensor& labels = *op.inputs[1];
  HeadSizes sizes{.rows = row_count(op, input),
                  .features = last_dim(op, input),
                  .classes = op.attributes.width,
                  .item_bytes = bytes_per_element(input.data_type)};
  if (sizes.rows != element_count(labels.shape, labels.name)) {
    refuse(op, fmt::format("labels {} do not match {}", shape_text(labels.shape),
                           shape_text(input.shape)));
  }
  sizes.product_flops = product(op, {2, sizes.rows, sizes.features, sizes.classes});
  return sizes;
}

std::vector<TensorSketch> head_parameters(const OpContext& op) {
  const std::int64_t in = last_dim(op, *op.inputs[0]);
  std::vector<TensorSketch> parameters = {{.suffix = "weight", .shape = {op.attributes.width, in}}};
  if (op.attributes.bias) parameters.push_back({.suffix = "bias", .shape = {op.attributes.width}});
  return parameters;
}

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return a / b + (a % b == 0 ? 0 : 1); }

// Rows of a chunk whose logits are about as large as the head's input: the next power of 2 of
// rows / ceil(classes / features).
std::int64_t chunk_rows(const HeadSizes& sizes) {
  const std::int64_t chunks = ceil_div(sizes.classes, sizes.features);
  return static_cast<std::int64_t>(
      std::bit_ceil(static_cast<std::uint64_t>(ceil_div(sizes.rows, chunks))));
}

// Loss and all gradients in forward, which are what is saved: Backward hands them on.
OpDerivation with_gradients_in_forward(const OpContext& op, const HeadSizes& sizes) {
  OpDerivation result{.outputs = {{.data_type = DataType::kFloat32, .shape = {1}}}};
  std::int64_t products = 1;
  const auto add = [&](const Tensor& of, std::size_t input, const char* suffix) {
    result.saved.auxiliaries.push_back(result.auxiliaries.size());
    result.gradient_places.push_back({.input = input, .auxiliary = result.auxiliaries.size()});
    result.auxiliaries.push_back({.suffix = suffix, .data_type = of.data_type, .shape = of.shape});
    ++products;
  };
  if (op.inputs[0]->requires_grad) add(*op.inputs[0], 0, "gradient_input");
  if (op.parameters[0]->requires_grad) add(*op.parameters[0], 2, "gradient_weight");
  if (op.attributes.bias && op.parameters[1]->requires_grad) {
    add(*op.parameters[1], 3, "gradient_bias");
    --products;
  }
  result.forward = matmul_cost(product(op, {products, sizes.product_flops}), products);
  result.backward = memory_bound_cost();
  return result;
}

// liger-kernel 0.8.5 (ops/fused_linear_cross_entropy.py) on a GPU of compute capability 8.0 or
// more, whose products go where they belong without a temporary: the logits of one chunk, a loss a
// row, and a flag a row.
OpDerivation derive_fused(const OpContext& op) {
  const HeadSizes sizes = head_sizes(op);
  if (!op.inputs[0]->requires_grad && op.parameters[0]->requires_grad) {
    refuse(op, "it makes no gradient of the weight where its input needs none");
  }
  OpDerivation result = with_gradients_in_forward(op, sizes);
  const std::int64_t rows = std::min(chunk_rows(sizes), sizes.rows);
  result.workspace_bytes =
      sum(op, {product(op, {rows, sizes.classes, sizes.item_bytes}), product(op, {5, sizes.rows})});
  if (op.attributes.bias) {  // what one chunk adds to its gradient
    result.workspace_bytes =
        sum(op, {result.workspace_bytes, product(op, {sizes.classes, sizes.item_bytes})});
  }
  return result;
}

// torch 2.13 (nn/modules/linear_cross_entropy.py): functional.linear_cross_entropy with
// LinearCrossEntropyOptions(), which on CUDA are the policy compact and half as many rows in a
// chunk. bf16 has fp32 logits, their copy in bf16, and an fp32 copy of the chunk's input; all have
// the chunk's rows of the weight, one a label. A row has its label, its weight and whether it
// counts. To autograd the gradients are outputs of forward, whose own gradients, zeros, Backward
// makes.
OpDerivation derive_chunked(const OpContext& op) {
  const HeadSizes sizes = head_sizes(op);
  if (op.attributes.softcap > 0.0) {
    refuse(op, "torch.nn.functional.linear_cross_entropy has no softcap of the logits");
  }
  OpDerivation result = with_gradients_in_forward(op, sizes);
  result.outputs[0].data_type = op.inputs[0]->data_type;
  const DataType type = op.inputs[0]->data_type;
  const std::int64_t rows = std::clamp<std::int64_t>(chunk_rows(sizes) / 2, 1, sizes.rows);
  const std::int64_t logits = product(op, {rows, sizes.classes});
  const std::int64_t inputs = product(op, {rows, sizes.features});
  const bool is_wide = type == DataType::kBFloat16;  // logits of fp32, and a copy of their own type
  const bool has_wide_inputs = type != DataType::kFloat32 && op.parameters[0]->requires_grad;
  result.workspace_bytes =
      sum(op, {product(op, {logits, is_wide ? 4 + sizes.item_bytes : sizes.item_bytes}),
               has_wide_inputs ? product(op, {4, inputs}) : 0,
               product(op, {sizes.item_bytes, inputs}), product(op, {8 + 4 + 1, sizes.rows})});
  for (const TensorSketch& gradient : result.auxiliaries) {
    const std::int64_t bytes =
        product(op, {element_count(gradient.shape, op.name), sizes.item_bytes});
    result.backward_workspace_bytes = sum(op, {result.backward_workspace_bytes, bytes});
  }
  return result;
}

// cut-cross-entropy 25.1.1 (cce.py, cce_backward.py): a logsumexp a row and a mean of each class's
// logits are saved with its inputs; Backward computes the logits again, in the kernel that makes
// both gradients. It sorts the classes by that mean first, into values and int64 positions, and
// holds an int32 copy of the positions, and locks, int32 for each row and class, while it runs.
OpDerivation derive_cut(const OpContext& op) {
  const HeadSizes sizes = head_sizes(op);
  const Tensor& input = *op.inputs[0];
  const Tensor& weight = *op.parameters[0];
  if (op.attributes.bias) refuse(op, "cut-cross-entropy has no bias");
  if (input.data_type == DataType::kFloat32) {
    refuse(op, "cut-cross-entropy takes 16-bit types only, found fp32");
  }
  OpDerivation result{.outputs = {{.data_type = DataType::kFloat32, .shape = {1}}},
                      .auxiliaries = {{.suffix = "logsumexp",
                                       .data_type = DataType::kFloat32,
                                       .shape = with_last_dim(input.shape, 1)},
                                      {.suffix = "mean_logits",
                                       .data_type = DataType::kFloat32,
                                       .shape = {sizes.classes}}},
                      .saved = {.inputs = {0, 1, 2}, .auxiliaries = {0, 1}},
                      .workspace_bytes = product(op, {4, sizes.rows})};
  std::int64_t gradient_bytes = input.bytes;  // made also where the input needs none
  if (weight.requires_grad) gradient_bytes = sum(op, {gradient_bytes, weight.bytes});
  const std::int64_t lock_columns = ceil_div(sizes.features, 64);
  const auto locks = [&](std::int64_t count) {
    return product(op, {4, ceil_div(count, lock_columns), lock_columns});
  };
  const std::int64_t order_bytes = product(op, {4, sizes.classes});
  const std::int64_t kernel_bytes = sum(op, {order_bytes, locks(sizes.rows), locks(sizes.classes)});
  const std::int64_t sort_bytes = product(op, {4 + 8, sizes.classes});
  result.backward_workspace_bytes = std::max(kernel_bytes, sort_bytes - gradient_bytes);
  const int gradients = 1 + (weight.requires_grad ? 1 : 0);
  result.forward = matmul_cost(sizes.product_flops, 1);
  result.backward = matmul_cost(product(op, {1 + gradients, sizes.product_flops}), 1);
  return result;
}

OpKindInfo head_kind(std::string_view name, std::string_view source,
                     OpDerivation (*derive)(const OpContext&)) {
  return {.name = name,
          .source = source,
          .min_inputs = 2,
          .max_inputs = 2,
          .integer_inputs = {1},
          .attributes = {AttributeKey::kWidth, AttributeKey::kBias, AttributeKey::kSoftcap},
          .required = {AttributeKey::kWidth},
          .parameters = head_parameters,
          .derive = derive};
}

}  // namespace

OpKindInfo fused_linear_cross_entropy_kind() {
  return head_kind("fused_linear_cross_entropy",
                   "liger-kernel 0.8.5 ops/fused_linear_cross_entropy.py", derive_fused);
}

OpKindInfo chunked_linear_cross_entropy_kind() {
  return head_kind("chunked_linear_cross_entropy", "torch 2.13 nn/modules/linear_cross_entropy.py",
                   derive_chunked);
}

OpKindInfo cut_cross_entropy_kind() {
  return head_kind("cut_cross_entropy", "cut-cross-entropy 25.1.1 cce.py", derive_cut);
}

}  // namespace cairn
