#include <cmath>

#include "executor/kernels/kernels.h"
#include "graph/error.h"

// Attention as one kernel.

namespace cairn {
namespace {

// Of the logsumexp where values have another width than keys, as torch's memory-efficient kernel
// has them (aten transformers/cuda/attention.cu, kAlignLSE).
constexpr std::int64_t kAlignedRows = 32;

// [batch, tokens, heads * width] as [batch, tokens, heads, width]
Elements with_heads(const Array& x, std::int64_t heads) {
  return elements(reshaped(x, {x.shape[0], x.shape[1], heads, last_dim(x) / heads}));
}

AttentionTensors attention_tensors(const Op& op, const std::vector<Array>& inputs,
                                   const Array& logsumexp) {
  const Array& q = inputs[0];
  const std::int64_t heads = op.attributes.heads;
  const std::int64_t kv_heads = op.attributes.kv_heads > 0 ? op.attributes.kv_heads : heads;
  const std::int64_t head_dim = last_dim(q) / heads;
  return {.q = with_heads(q, heads),
          .k = with_heads(inputs[1], kv_heads),
          .v = with_heads(inputs[2], kv_heads),
          .logsumexp = elements(logsumexp),
          .logsumexp_rows = last_dim(logsumexp),
          .tokens = q.shape[1],
          .keys = inputs[1].shape[1],
          .heads = heads,
          .kv_heads = kv_heads,
          .head_dim = head_dim,
          .value_dim = last_dim(inputs[2]) / kv_heads,
          .is_causal = op.attributes.causal,
          .window = op.attributes.window,
          .scale = op.attributes.constant.value_or(1.0 / std::sqrt(static_cast<double>(head_dim)))};
}

void attention_forward(ForwardRun& run) {
  const Array& q = run.inputs[0];
  const std::int64_t heads = run.op.attributes.heads;
  const std::int64_t kv_heads = run.op.attributes.kv_heads > 0 ? run.op.attributes.kv_heads : heads;
  const bool is_one_width = last_dim(run.inputs[2]) / kv_heads == last_dim(q) / heads;
  const std::int64_t rows =
      is_one_width ? q.shape[1] : (q.shape[1] + kAlignedRows - 1) / kAlignedRows * kAlignedRows;
  run.auxiliaries = {run.memory.make(statistics_type(q.type), {q.shape[0], heads, rows})};
  const AttentionTensors at = attention_tensors(run.op, run.inputs, run.auxiliaries[0]);
  CAIRN_CHECK(at.head_dim <= kMaxHeadDim && at.value_dim <= kMaxHeadDim, "wide heads");
  run.outputs = {run.memory.make(q.type, {q.shape[0], q.shape[1], heads * at.value_dim})};
  with_real(q.type, [&](auto real) {
    launch(run.memory.device(), q.shape[0] * heads * q.shape[1],
           AttentionForward<decltype(real)>{at, with_heads(run.outputs[0], heads)});
  });
}

void attention_backward(BackwardRun& run) {
  const std::int64_t heads = run.op.attributes.heads;
  const AttentionTensors at = attention_tensors(run.op, run.inputs, run.auxiliaries[0]);
  const Array& q = run.inputs[0];
  const Array dots = run.memory.make(statistics_type(q.type), {q.shape[0], heads, q.shape[1]});
  run.workspaces = {dots};
  for (std::size_t i = 0; i < 3; ++i) {
    run.gradients[i].array = run.memory.make(run.inputs[i].type, run.inputs[i].shape);
  }
  const AttentionGradients of{at, with_heads(run.outputs[0], heads),
                              with_heads(run.output_gradients[0], heads), elements(dots)};
  Device& device = run.memory.device();
  with_real(q.type, [&](auto real) {
    using Real = decltype(real);
    launch(device, element_count(dots), AttentionDots<Real>{of});
    launch(device, element_count(dots),
           AttentionQueryGradient<Real>{of, with_heads(run.gradients[0].array, heads)});
    launch(device, q.shape[0] * at.kv_heads * at.keys,
           AttentionKeyGradient<Real>{of, with_heads(run.gradients[1].array, at.kv_heads),
                                      with_heads(run.gradients[2].array, at.kv_heads)});
  });
}

}  // namespace

std::vector<Kernel> attention_kernels() {
  return {{"attention", attention_forward, attention_backward}};
}

}  // namespace cairn
