#include "graph/checked.h"
#include "graph/ops/attention_dims.h"
#include "graph/ops/kinds.h"
#include "graph/ops/shapes.h"

// Attention with a mask that is given as a tensor, as torch's scaled_dot_product_attention runs it
// on CUDA: the flash kernel takes none, the memory-efficient one does.

namespace cairn {
namespace {

// Saves q, k, v, the mask in numbers of q's type, its output and the logsumexp (torch
// derivatives.yaml: _scaled_dot_product_efficient_attention), and with dropout the 16 bytes of the
// random state. The numbers are made of the flags by each call, [batch, 1, tokens, tokens] with
// rows of a multiple of 8 (aten transformers/attention.cpp: convert_boolean_attn_mask, pad_bias).
// The logsumexp has rows of a multiple of 32 (cuda/attention.cu, kAlignLSE). Every pair is run.
// Backward workspace: fp32 dq in tiles and the row sums (mem_eff_attention/kernel_backward.h), and
// k's and v's gradients for every query head before they are summed over a group.
OpDerivation derive_masked_attention(const OpContext& op) {
  const Tensor& q = *op.inputs[0];
  const AttentionDims dims = attention_dims(op, q, op.attributes.heads);
  const std::int64_t kv_heads = checked_kv_heads(op, dims);
  check_shape(op, *op.inputs[2], op.inputs[1]->shape);
  OpDerivation result{
      .outputs = {{.data_type = q.data_type, .shape = q.shape}},
      .auxiliaries = {{.suffix = "bias",
                       .data_type = q.data_type,
                       .shape = {dims.batch, 1, dims.tokens, round_up(op, dims.tokens, 8)}},
                      {.suffix = "logsumexp",
                       .data_type = DataType::kFloat32,
                       .shape = {dims.batch, dims.heads, round_up(op, dims.tokens, 32)}}}};
  result.saved = {.inputs = {0, 1, 2}, .outputs = {0}, .auxiliaries = {0, 1}};
  if (op.attributes.probability > 0) {
    result.auxiliaries.push_back(
        {.suffix = "rng_state", .data_type = DataType::kInt64, .shape = {2}});
    result.saved.auxiliaries.push_back(2);
    result.recompute = RecomputePolicy::kReplayRandom;
  }
  const std::int64_t rows = product(op, {dims.batch, dims.heads, round_up(op, dims.tokens, 64)});
  result.backward_workspace_bytes =
      checked_add(product(op, {4, rows, round_up(op, dims.head_dim, 64)}),
                  product(op, {4, dims.batch, dims.heads, dims.tokens}), "op '{}'", op.name);
  if (kv_heads < dims.heads) {
    result.backward_workspace_bytes =
        checked_add(result.backward_workspace_bytes, product(op, {2, q.bytes}), "op '{}'", op.name);
  }
  const std::int64_t product_flops = attention_product_flops(op, dims);
  result.forward = matmul_cost(product(op, {2, product_flops}), 2);  // the mask's numbers first
  result.backward = matmul_cost(product(op, {5, product_flops}), 2);
  return result;
}

}  // namespace

OpKindInfo masked_attention_kind() {
  return {.name = "masked_attention",
          .min_inputs = 3,
          .max_inputs = 3,
          .attributes = {AttributeKey::kHeads, AttributeKey::kKvHeads, AttributeKey::kProbability},
          .required = {AttributeKey::kHeads},
          .derive = derive_masked_attention};
}

}  // namespace cairn
