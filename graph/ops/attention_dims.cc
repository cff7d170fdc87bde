#include "graph/ops/attention_dims.h"

#include <fmt/format.h>

#include "graph/checked.h"
#include "graph/ops/shapes.h"

namespace cairn {

AttentionDims attention_dims(const OpContext& op, const Tensor& q, const Tensor& k,
                             std::int64_t heads) {
  if (q.shape.size() != 3) {
    refuse(op, fmt::format("'{}' must be [batch, tokens, width], found {}", q.name,
                           shape_text(q.shape)));
  }
  return {.batch = q.shape[0],
          .tokens = q.shape[1],
          .key_tokens = k.shape.size() == 3 ? k.shape[1] : q.shape[1],
          .heads = heads,
          .head_dim = part_width(op, q, heads, "heads")};
}

std::int64_t heads_per_kv_head(const OpContext& op, std::int64_t heads, std::int64_t kv_heads) {
  if (heads % kv_heads == 0) return heads / kv_heads;
  refuse(op, fmt::format("{} heads do not divide into {} kv_heads", heads, kv_heads));
}

std::int64_t checked_kv_heads(const OpContext& op, const AttentionDims& dims) {
  const std::int64_t kv_heads = op.attributes.kv_heads == 0 ? dims.heads : op.attributes.kv_heads;
  heads_per_kv_head(op, dims.heads, kv_heads);
  const Shape kv_shape = {dims.batch, dims.key_tokens, kv_heads * dims.head_dim};
  check_shape(op, *op.inputs[1], kv_shape);
  return kv_heads;
}

std::int64_t value_head_dim(const OpContext& op, const AttentionDims& dims, std::int64_t kv_heads) {
  const Tensor& v = *op.inputs[2];
  if (v.shape.size() != 3 || v.shape[2] % kv_heads != 0) {
    refuse(op, fmt::format("'{}' must be [batch, tokens, width] of {} heads, found {}", v.name,
                           kv_heads, shape_text(v.shape)));
  }
  check_shape(op, v, {dims.batch, dims.key_tokens, v.shape[2]});
  return v.shape[2] / kv_heads;
}

void check_shape(const OpContext& op, const Tensor& tensor, const Shape& expected) {
  if (tensor.shape == expected) return;
  refuse(op, fmt::format("'{}' must be {}, found {}", tensor.name, shape_text(expected),
                         shape_text(tensor.shape)));
}

std::int64_t attention_product_flops(const OpContext& op, const AttentionDims& dims) {
  return product(op, {2, dims.batch, dims.heads, dims.tokens, dims.key_tokens, dims.head_dim});
}

void add_backward_workspace(const OpContext& op, std::int64_t bytes, OpDerivation& result) {
  result.backward_workspace_bytes =
      checked_add(result.backward_workspace_bytes, bytes, "op '{}'", op.name);
}

void add_grouped_gradients(const OpContext& op, const AttentionDims& dims, std::int64_t kv_heads,
                           OpDerivation& result) {
  if (kv_heads == dims.heads) return;
  add_backward_workspace(op, product(op, {2, op.inputs[1]->bytes, dims.heads / kv_heads}), result);
}

void save_auxiliary(TensorSketch auxiliary, OpDerivation& result) {
  result.saved.auxiliaries.push_back(result.auxiliaries.size());
  result.auxiliaries.push_back(std::move(auxiliary));
}

void save_random_state(const OpContext& op, OpDerivation& result) {
  if (op.attributes.probability == 0.0) return;
  save_auxiliary({.suffix = "rng_state", .data_type = DataType::kInt64, .shape = {2}}, result);
  result.recompute = RecomputePolicy::kReplayRandom;
}

std::int64_t round_up(const OpContext& op, std::int64_t value, std::int64_t multiple) {
  return product(op, {value / multiple + (value % multiple == 0 ? 0 : 1), multiple});
}

}  // namespace cairn
