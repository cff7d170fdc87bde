#include <fmt/format.h>

#include "graph/checked.h"
#include "graph/ops/kinds.h"
#include "graph/ops/shapes.h"

// Attention as one flash kernel, and the pieces that eager attention is spelled out with.
// q is [batch, tokens, heads * head_dim], k and v are [batch, tokens, kv_heads * head_dim].

namespace cairn {
namespace {

struct AttentionDims {
  std::int64_t batch = 0;
  std::int64_t tokens = 0;
  std::int64_t heads = 0;
  std::int64_t head_dim = 0;
};

AttentionDims attention_dims(const OpContext& op, const Tensor& q, std::int64_t heads) {
  if (q.shape.size() != 3) {
    refuse(op, fmt::format("'{}' must be [batch, tokens, width], found {}", q.name,
                           shape_text(q.shape)));
  }
  if (q.shape[2] % heads != 0) {
    refuse(op, fmt::format("the width {} of '{}' does not divide into {} heads", q.shape[2], q.name,
                           heads));
  }
  return {
      .batch = q.shape[0], .tokens = q.shape[1], .heads = heads, .head_dim = q.shape[2] / heads};
}

std::int64_t round_up(const OpContext& op, std::int64_t value, std::int64_t multiple) {
  return product(op, {value / multiple + (value % multiple == 0 ? 0 : 1), multiple});
}

void check_shape(const OpContext& op, const Tensor& tensor, const Shape& expected) {
  if (tensor.shape == expected) return;
  refuse(op, fmt::format("'{}' must be {}, found {}", tensor.name, shape_text(expected),
                         shape_text(tensor.shape)));
}

// Saves q, k, v, its output and the logsumexp (flash_attn_interface.py, save_for_backward), and
// with dropout the 16 bytes of the random state. FLOPs as torch's counter has them: two products
// of 2 * batch * heads * tokens^2 * head_dim, five in the backward pass; a causal kernel executes
// half. Backward workspace: fp32 dq, the row sums, and k's and v's gradients for every query head
// before they are summed over a group (flash-attention csrc/flash_attn/flash_api.cpp).
OpDerivation derive_attention(const OpContext& op) {
  const Tensor& q = *op.inputs[0];
  const AttentionDims dims = attention_dims(op, q, op.attributes.heads);
  const std::int64_t kv_heads = op.attributes.kv_heads == 0 ? dims.heads : op.attributes.kv_heads;
  if (dims.heads % kv_heads != 0) {
    refuse(op, fmt::format("{} heads do not divide into {} kv_heads", dims.heads, kv_heads));
  }
  const Shape kv_shape = with_last_dim(q.shape, kv_heads * dims.head_dim);
  check_shape(op, *op.inputs[1], kv_shape);
  check_shape(op, *op.inputs[2], kv_shape);
  OpDerivation result{.outputs = {{.data_type = q.data_type, .shape = q.shape}},
                      .auxiliaries = {{.suffix = "logsumexp",
                                       .data_type = DataType::kFloat32,
                                       .shape = {dims.batch, dims.heads, dims.tokens}}}};
  result.saved = {.inputs = {0, 1, 2}, .outputs = {0}, .auxiliaries = {0}};
  if (op.attributes.probability > 0) {
    result.auxiliaries.push_back(
        {.suffix = "rng_state", .data_type = DataType::kInt64, .shape = {2}});
    result.saved.auxiliaries.push_back(1);
    result.recompute = RecomputePolicy::kReplayRandom;
  }
  const std::int64_t rows = product(op, {dims.batch, dims.heads, round_up(op, dims.tokens, 128)});
  result.backward_workspace_bytes =
      checked_add(product(op, {4, rows, round_up(op, dims.head_dim, 32)}), product(op, {4, rows}),
                  "op '{}'", op.name);
  if (kv_heads < dims.heads) {
    result.backward_workspace_bytes =
        checked_add(result.backward_workspace_bytes, product(op, {2, q.bytes}), "op '{}'", op.name);
  }
  const std::int64_t product_flops =
      product(op, {2, dims.batch, dims.heads, dims.tokens, dims.tokens, dims.head_dim});
  result.forward = matmul_cost(product(op, {2, product_flops}), 1);
  result.backward = matmul_cost(product(op, {5, product_flops}), 3);
  if (op.attributes.causal) {
    result.forward.executed_flops /= 2;
    result.backward.executed_flops /= 2;
  }
  return result;
}

// scores = q k^T, [batch, heads, tokens, tokens]
OpDerivation derive_scores(const OpContext& op) {
  const Tensor& q = *op.inputs[0];
  const AttentionDims dims = attention_dims(op, q, op.attributes.heads);
  check_shape(op, *op.inputs[1], q.shape);
  OpDerivation result{.outputs = {{.data_type = q.data_type,
                                   .shape = {dims.batch, dims.heads, dims.tokens, dims.tokens}}}};
  result.saved.inputs = {0, 1};
  const std::int64_t product_flops =
      product(op, {2, dims.batch, dims.heads, dims.tokens, dims.tokens, dims.head_dim});
  result.forward = matmul_cost(product_flops, 1);
  result.backward = matmul_cost(product(op, {2, product_flops}), 2);
  return result;
}

// probabilities v, [batch, tokens, heads * head_dim]
OpDerivation derive_values(const OpContext& op) {
  const Tensor& probabilities = *op.inputs[0];
  const Tensor& v = *op.inputs[1];
  const AttentionDims dims = attention_dims(op, v, op.attributes.heads);
  check_shape(op, probabilities, {dims.batch, dims.heads, dims.tokens, dims.tokens});
  OpDerivation result{.outputs = {{.data_type = v.data_type, .shape = v.shape}}};
  if (v.requires_grad) result.saved.inputs.push_back(0);
  if (probabilities.requires_grad) result.saved.inputs.push_back(1);
  const std::int64_t product_flops =
      product(op, {2, dims.batch, dims.heads, dims.tokens, dims.tokens, dims.head_dim});
  result.forward = matmul_cost(product_flops, 1);
  result.backward = matmul_cost(product(op, {2, product_flops}), 2);
  return result;
}

// Materialises k or v once for each query head (expand + reshape is a new storage); saves nothing.
OpDerivation derive_repeat_kv(const OpContext& op) {
  const Tensor& input = *op.inputs[0];
  const std::int64_t heads = op.attributes.heads;
  const std::int64_t kv_heads = op.attributes.kv_heads;
  if (heads % kv_heads != 0) {
    refuse(op, fmt::format("{} heads do not divide into {} kv_heads", heads, kv_heads));
  }
  const std::int64_t width = product(op, {last_dim(op, input), heads / kv_heads});
  return {.outputs = {{.data_type = input.data_type, .shape = with_last_dim(input.shape, width)}},
          .forward = memory_bound_cost(),
          .backward = memory_bound_cost()};
}

}  // namespace

OpKindInfo attention_kind() {
  return {.name = "attention",
          .min_inputs = 3,
          .max_inputs = 3,
          .attributes = {AttributeKey::kHeads, AttributeKey::kKvHeads, AttributeKey::kCausal,
                         AttributeKey::kProbability},
          .required = {AttributeKey::kHeads},
          .derive = derive_attention};
}

OpKindInfo attention_scores_kind() {
  return {.name = "attention_scores",
          .min_inputs = 2,
          .max_inputs = 2,
          .attributes = {AttributeKey::kHeads},
          .required = {AttributeKey::kHeads},
          .derive = derive_scores};
}

OpKindInfo attention_values_kind() {
  return {.name = "attention_values",
          .min_inputs = 2,
          .max_inputs = 2,
          .attributes = {AttributeKey::kHeads},
          .required = {AttributeKey::kHeads},
          .derive = derive_values};
}

OpKindInfo repeat_kv_kind() {
  return {.name = "repeat_kv",
          .attributes = {AttributeKey::kHeads, AttributeKey::kKvHeads},
          .required = {AttributeKey::kHeads, AttributeKey::kKvHeads},
          .derive = derive_repeat_kv};
}

}  // namespace cairn
