#include <optional>

#include "graph/ops/attention_dims.h"
#include "graph/ops/kinds.h"
#include "graph/ops/shapes.h"

// Attention with a mask or a bias that is given as a tensor, as torch's
// scaled_dot_product_attention runs it on CUDA: the flash kernel takes none, the memory-efficient
// one does.

namespace cairn {
namespace {

// Saves q, k, v, the numbers that are added to the scores, its output and the logsumexp (torch
// derivatives.yaml: _scaled_dot_product_efficient_attention), and with dropout the 16 bytes of the
// random state. The numbers are of q's type; `made_bias` is their shape where each call makes them.
// The logsumexp has rows of a multiple of 32 (cuda/attention.cu, kAlignLSE). Every pair is run.
// Backward workspace: fp32 dq in tiles and the row sums (mem_eff_attention/kernel_backward.h), and
// k's and v's gradients for every query head before they are summed over a group.
OpDerivation derive_efficient_attention(const OpContext& op, const AttentionDims& dims,
                                        const std::optional<Shape>& made_bias) {
  const Tensor& q = *op.inputs[0];
  const std::int64_t kv_heads = checked_kv_heads(op, dims);
  check_shape(op, *op.inputs[2], op.inputs[1]->shape);
  OpDerivation result{.outputs = {{.data_type = q.data_type, .shape = q.shape}},
                      .saved = {.inputs = {0, 1, 2}, .outputs = {0}}};
  if (made_bias) {
    save_auxiliary({.suffix = "bias", .data_type = q.data_type, .shape = *made_bias}, result);
  } else {
    result.saved.inputs.push_back(3);
  }
  save_auxiliary({.suffix = "logsumexp",
                  .data_type = DataType::kFloat32,
                  .shape = {dims.batch, dims.heads, round_up(op, dims.tokens, 32)}},
                 result);
  save_random_state(op, result);
  const std::int64_t rows = product(op, {dims.batch, dims.heads, round_up(op, dims.tokens, 64)});
  add_backward_workspace(op, product(op, {4, rows, round_up(op, dims.head_dim, 64)}), result);
  add_backward_workspace(op, product(op, {4, dims.batch, dims.heads, dims.tokens}), result);
  add_grouped_gradients(op, dims, kv_heads, result);
  const std::int64_t product_flops = attention_product_flops(op, dims);
  result.forward = matmul_cost(product(op, {2, product_flops}), made_bias ? 2 : 1);
  result.backward = matmul_cost(product(op, {5, product_flops}), 2);
  return result;
}

// A mask of flags, of which each call makes the numbers, [batch, 1, tokens, key tokens] with rows
// of a multiple of 8 (aten transformers/attention.cpp: convert_boolean_attn_mask, pad_bias).
OpDerivation derive_masked_attention(const OpContext& op) {
  const AttentionDims dims = attention_dims(op, *op.inputs[0], *op.inputs[1], op.attributes.heads);
  return derive_efficient_attention(
      op, dims, Shape{dims.batch, 1, dims.tokens, round_up(op, dims.key_tokens, 8)});
}

}  // namespace

// Numbers for each pair, of one sample or all, which also hide what a token may not see; rows that
// are no multiple of 8 are copied to such.
OpDerivation derive_biased_attention(const OpContext& op) {
  const AttentionDims dims = attention_dims(op, *op.inputs[0], *op.inputs[1], op.attributes.heads);
  const Tensor& bias = *op.inputs[3];
  const std::int64_t samples = bias.shape.empty() || bias.shape[0] == 1 ? 1 : dims.batch;
  check_shape(op, bias, {samples, dims.heads, dims.tokens, dims.key_tokens});
  const std::int64_t row = round_up(op, dims.key_tokens, 8);
  OpDerivation result = derive_efficient_attention(
      op, dims,
      row == dims.key_tokens ? std::nullopt : std::optional<Shape>(with_last_dim(bias.shape, row)));
  if (!bias.requires_grad) return result;
  // Its gradient is first made for every sample, in rows of a multiple of 16.
  add_backward_workspace(op,
                         product(op, {bytes_per_element(bias.data_type), dims.batch, dims.heads,
                                      dims.tokens, round_up(op, dims.key_tokens, 16)}),
                         result);
  return result;
}

OpKindInfo masked_attention_kind() {
  return {.name = "masked_attention",
          .source = "derivatives.yaml: _scaled_dot_product_efficient_attention",
          .min_inputs = 3,
          .max_inputs = 3,
          .attributes = {AttributeKey::kHeads, AttributeKey::kKvHeads, AttributeKey::kProbability,
                         AttributeKey::kCausal, AttributeKey::kWindow, AttributeKey::kConstant},
          .required = {AttributeKey::kHeads},
          .derive = derive_masked_attention,
          .autocast = AutocastList::kLowerPrecision};
}

}  // namespace cairn
