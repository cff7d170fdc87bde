#include <algorithm>

#include "graph/checked.h"
#include "graph/ops/attention_dims.h"
#include "graph/ops/kinds.h"
#include "graph/ops/shapes.h"

// Attention as one flash kernel, and the pieces that eager attention is spelled out with.
// q is [batch, tokens, heads * head_dim], k is [batch, key tokens, kv_heads * head_dim]; v is like
// k, or has heads of another width, which the output then has too.

namespace cairn {
namespace {

// FLOPs of one product that the kernel runs, for each element of a head's width. Query i of a
// causal one sees min(i, window) keys before it: tokens * window - window^2 / 2 pairs, and half of
// all where there is no window.
std::int64_t executed_pair_flops(const OpContext& op, const AttentionDims& dims) {
  const std::int64_t all = product(op, {2, dims.batch, dims.heads, dims.tokens, dims.key_tokens});
  if (!op.attributes.causal) return all;
  std::int64_t window = dims.tokens;
  if (op.attributes.window > 0) window = std::min(window, op.attributes.window);
  return product(op, {dims.batch, dims.heads, 2 * dims.tokens - window, window});
}

// `causal` beside a bias is for layer files: the bias hides what a token may not see.
void check_attributes(const OpContext& op) {
  const bool has_bias = op.inputs.size() == 4;
  if (op.attributes.bias && !has_bias) refuse(op, "with 'bias' it takes a fourth input, the bias");
  if (op.attributes.sinks && has_bias) refuse(op, "with sinks it takes no fourth input");
  if (op.attributes.window > 0 && (has_bias || !op.attributes.causal)) {
    refuse(op, "a window is of a causal kernel without a bias");
  }
}

std::vector<TensorSketch> attention_parameters(const OpContext& op) {
  if (!op.attributes.sinks) return {};
  return {{.suffix = "sinks", .shape = {op.attributes.heads}}};
}

// Saves q, k, v, its output and the logsumexp (flash_attn_interface.py, save_for_backward), and
// with dropout the 16 bytes of the random state. Where v's heads have another width than q's, sdpa
// takes the memory-efficient kernel (sdp_utils.cpp, check_head_dim_size_flash), which saves the
// same, with rows of a multiple of 32 in the logsumexp (cuda/attention.cu, kAlignLSE). Sinks take
// part in the kernel's softmax and are saved with the rest. FLOPs as torch's counter has them:
// products of 2 * batch * heads * tokens * key tokens * width, of q's and of v's heads forward,
// three of q's and two of v's in the backward pass; a causal kernel executes half, and with a
// window skips what no query of a block sees. Backward workspace: fp32 dq, the row sums, and k's
// and v's gradients for every query head before they are summed over a group (flash-attention
// csrc/flash_attn/flash_api.cpp).
OpDerivation derive_attention(const OpContext& op) {
  check_attributes(op);
  if (op.inputs.size() == 4) return derive_biased_attention(op);
  const Tensor& q = *op.inputs[0];
  const AttentionDims dims = attention_dims(op, q, *op.inputs[1], op.attributes.heads);
  const std::int64_t kv_heads = checked_kv_heads(op, dims);
  if (op.attributes.causal && dims.key_tokens != dims.tokens) {
    refuse(op, "a causal kernel has as many keys as queries");
  }
  const std::int64_t v_head_dim = value_head_dim(op, dims, kv_heads);
  const Shape shape = with_last_dim(q.shape, product(op, {dims.heads, v_head_dim}));
  const std::int64_t logsumexp_rows =
      v_head_dim == dims.head_dim ? dims.tokens : round_up(op, dims.tokens, 32);
  OpDerivation result{.outputs = {{.data_type = q.data_type, .shape = shape}},
                      .saved = {.inputs = {0, 1, 2}, .outputs = {0}}};
  if (op.attributes.sinks) result.saved.inputs.push_back(3);
  save_auxiliary({.suffix = "logsumexp",
                  .data_type = DataType::kFloat32,
                  .shape = {dims.batch, dims.heads, logsumexp_rows}},
                 result);
  save_random_state(op, result);
  const std::int64_t rows = product(op, {dims.batch, dims.heads, round_up(op, dims.tokens, 128)});
  add_backward_workspace(op, product(op, {4, rows, round_up(op, dims.head_dim, 32)}), result);
  add_backward_workspace(op, product(op, {4, rows}), result);
  add_grouped_gradients(op, dims, kv_heads, result);
  const std::int64_t forward_widths =
      checked_add(dims.head_dim, v_head_dim, "op '{}': its widths", op.name);
  const std::int64_t backward_widths =
      checked_add(product(op, {2, forward_widths}), dims.head_dim, "op '{}': its widths", op.name);
  const std::int64_t pair_flops =
      product(op, {2, dims.batch, dims.heads, dims.tokens, dims.key_tokens});
  result.forward = matmul_cost(product(op, {pair_flops, forward_widths}), 1);
  result.backward = matmul_cost(product(op, {pair_flops, backward_widths}), 3);
  const std::int64_t executed = executed_pair_flops(op, dims);
  result.forward.executed_flops = product(op, {executed, forward_widths});
  result.backward.executed_flops = product(op, {executed, backward_widths});
  return result;
}

// A batched product of the first two inputs: saves each for the other's gradient, where that is
// required (derivatives.yaml: bmm), and has one product more for each gradient.
void add_product(const OpContext& op, const AttentionDims& dims, const Tensor& a, const Tensor& b,
                 OpDerivation& result) {
  if (b.requires_grad) result.saved.inputs.push_back(0);
  if (a.requires_grad) result.saved.inputs.push_back(1);
  const std::int64_t product_flops = attention_product_flops(op, dims);
  const int gradients = (a.requires_grad ? 1 : 0) + (b.requires_grad ? 1 : 0);
  result.forward = matmul_cost(product_flops, 1);
  result.backward = matmul_cost(product(op, {gradients, product_flops}), gradients);
}

// scores = q k^T, [batch, heads, tokens, key tokens]
OpDerivation derive_scores(const OpContext& op) {
  const Tensor& q = *op.inputs[0];
  const AttentionDims dims = attention_dims(op, q, *op.inputs[1], op.attributes.heads);
  check_shape(op, *op.inputs[1], {dims.batch, dims.key_tokens, q.shape[2]});
  OpDerivation result{
      .outputs = {{.data_type = q.data_type,
                   .shape = {dims.batch, dims.heads, dims.tokens, dims.key_tokens}}}};
  add_product(op, dims, q, *op.inputs[1], result);
  return result;
}

// probabilities v, [batch, tokens, heads * head_dim]
OpDerivation derive_values(const OpContext& op) {
  const Tensor& probabilities = *op.inputs[0];
  const Tensor& v = *op.inputs[1];
  AttentionDims dims = attention_dims(op, v, v, op.attributes.heads);
  if (probabilities.shape.size() == 4) dims.tokens = probabilities.shape[2];
  check_shape(op, probabilities, {dims.batch, dims.heads, dims.tokens, dims.key_tokens});
  OpDerivation result{
      .outputs = {{.data_type = v.data_type, .shape = {dims.batch, dims.tokens, v.shape[2]}}}};
  add_product(op, dims, probabilities, v, result);
  return result;
}

// Materialises k or v once for each query head (expand + reshape is a new storage); saves nothing.
OpDerivation derive_repeat_kv(const OpContext& op) {
  const Tensor& input = *op.inputs[0];
  const std::int64_t heads = op.attributes.heads;
  const std::int64_t kv_heads = op.attributes.kv_heads;
  const std::int64_t width =
      product(op, {last_dim(op, input), heads_per_kv_head(op, heads, kv_heads)});
  return {.outputs = {{.data_type = input.data_type, .shape = with_last_dim(input.shape, width)}},
          .forward = memory_bound_cost(),
          .backward = memory_bound_cost()};
}

}  // namespace

OpKindInfo attention_kind() {
  return {.name = "attention",
          .source =
              "flash_attn_interface.py; derivatives.yaml: _scaled_dot_product_efficient_attention",
          .min_inputs = 3,
          .max_inputs = 4,
          .attributes = {AttributeKey::kHeads, AttributeKey::kKvHeads, AttributeKey::kCausal,
                         AttributeKey::kProbability, AttributeKey::kWindow, AttributeKey::kSoftcap,
                         AttributeKey::kBias, AttributeKey::kSinks, AttributeKey::kConstant},
          .required = {AttributeKey::kHeads},
          .parameters = attention_parameters,
          .derive = derive_attention,
          .autocast = AutocastList::kLowerPrecision};
}

OpKindInfo attention_scores_kind() {
  return {.name = "attention_scores",
          .source = "derivatives.yaml: bmm",
          .min_inputs = 2,
          .max_inputs = 2,
          .attributes = {AttributeKey::kHeads, AttributeKey::kConstant},
          .required = {AttributeKey::kHeads},
          .derive = derive_scores,
          .autocast = AutocastList::kLowerPrecision};
}

OpKindInfo attention_values_kind() {
  return {.name = "attention_values",
          .source = "derivatives.yaml: bmm",
          .min_inputs = 2,
          .max_inputs = 2,
          .attributes = {AttributeKey::kHeads},
          .required = {AttributeKey::kHeads},
          .derive = derive_values,
          .autocast = AutocastList::kLowerPrecision};
}

OpKindInfo repeat_kv_kind() {
  return {.name = "repeat_kv",
          .source = "derivatives.yaml: expand, clone",
          .attributes = {AttributeKey::kHeads, AttributeKey::kKvHeads},
          .required = {AttributeKey::kHeads, AttributeKey::kKvHeads},
          .derive = derive_repeat_kv,
          .autocast = AutocastList::kNone};
}

}  // namespace cairn
