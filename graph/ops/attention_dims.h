#pragma once

#include <cstdint>

#include "graph/ops/op_kind.h"

// What the attention kinds share. q is [batch, tokens, heads * head_dim]; k and v are
// [batch, key_tokens, kv_heads * head_dim], with other tokens than q's where a decoder attends to
// an encoder, and a v of another width where a kind takes one.

namespace cairn {

struct AttentionDims {
  std::int64_t batch = 0;
  std::int64_t tokens = 0;
  std::int64_t key_tokens = 0;
  std::int64_t heads = 0;
  std::int64_t head_dim = 0;
};

// `k` gives the key tokens; checked_kv_heads, or the kind, checks the rest of it.
AttentionDims attention_dims(const OpContext& op, const Tensor& q, const Tensor& k,
                             std::int64_t heads);

// How many query heads read one head of k and v; refuses heads that do not divide.
std::int64_t heads_per_kv_head(const OpContext& op, std::int64_t heads, std::int64_t kv_heads);

// The heads of the inputs k and v, after q, as many as q's unless stated; k's shape is checked.
std::int64_t checked_kv_heads(const OpContext& op, const AttentionDims& dims);

// The width of one head of v, the third input; its other dims are checked.
std::int64_t value_head_dim(const OpContext& op, const AttentionDims& dims, std::int64_t kv_heads);

void check_shape(const OpContext& op, const Tensor& tensor, const Shape& expected);

// FLOPs of q k^T, and of the scores by v.
std::int64_t attention_product_flops(const OpContext& op, const AttentionDims& dims);

// Attention with a fourth input, numbers that are added to the scores: masked_attention.cc.
OpDerivation derive_biased_attention(const OpContext& op);

void add_backward_workspace(const OpContext& op, std::int64_t bytes, OpDerivation& result);

// The gradients of grouped k and v for every query head, before they are summed over a group.
void add_grouped_gradients(const OpContext& op, const AttentionDims& dims, std::int64_t kv_heads,
                           OpDerivation& result);

void save_auxiliary(TensorSketch auxiliary, OpDerivation& result);

// With dropout the 16 bytes that replay it.
void save_random_state(const OpContext& op, OpDerivation& result);

std::int64_t round_up(const OpContext& op, std::int64_t value, std::int64_t multiple);

}  // namespace cairn
