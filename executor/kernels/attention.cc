#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <initializer_list>

#include "executor/kernels/kernels.h"

// Attention as one kernel.

namespace cairn {
namespace {

// Rows of the logsumexp where values have another width than keys or a bias is added, and of a
// bias, as torch's memory-efficient kernel has them (aten transformers/cuda/attention.cu,
// kAlignLSE; transformers/attention.cpp, pad_bias).
constexpr std::int64_t kAlignedRows = 32;
constexpr std::int64_t kAlignedKeys = 8;

// What a mask adds to a score that is not seen: the lowest number of bf16.
constexpr double kHidden = -3.3895313892515355e38;

std::int64_t rounded_up(std::int64_t value, std::int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

// What the kernel reads beside q, k and v, and what it keeps.
struct Extras {
  Array bias = {};  // [samples, heads or 1, tokens, keys or more]
  Array sinks = {};
  Array logsumexp = {};
  Array random = {};
};

std::int64_t heads_of(const Op& op) { return op.attributes.heads; }

std::int64_t kv_heads_of(const Op& op) {
  return op.attributes.kv_heads > 0 ? op.attributes.kv_heads : op.attributes.heads;
}

std::int64_t head_dim_of(const Array& x, std::int64_t heads) { return last_dim(by_head(x, heads)); }

AttentionRows rows_of_all(std::initializer_list<Elements> tensors) {
  const auto are_dense = [&](DataType type) {
    return std::all_of(tensors.begin(), tensors.end(),
                       [&](const Elements& x) { return x.type == type && x.strides[3] == 1; });
  };
  const DataType type = tensors.begin()->type;
  if (!are_dense(type)) return AttentionRows::kStrided;
  if (type == DataType::kBFloat16) return AttentionRows::kDenseBf16;
  return type == statistics_type(type) ? AttentionRows::kDenseReals : AttentionRows::kStrided;
}

AttentionTensors attention_tensors(const Op& op, const std::vector<Array>& inputs,
                                   const Extras& extras) {
  const Array q = by_head(inputs[0], heads_of(op));
  const Array k = by_head(inputs[1], kv_heads_of(op));
  const Array v = by_head(inputs[2], kv_heads_of(op));
  AttentionTensors at{
      .q = elements(q),
      .k = elements(k),
      .v = elements(v),
      .logsumexp = elements(extras.logsumexp),
      .logsumexp_rows = last_dim(extras.logsumexp),
      .tokens = q.shape[1],
      .keys = k.shape[1],
      .heads = heads_of(op),
      .kv_heads = kv_heads_of(op),
      .head_dim = last_dim(q),
      .value_dim = last_dim(v),
      .is_causal = op.attributes.causal && !extras.bias.is_there(),
      .window = op.attributes.window,
      .scale = op.attributes.constant.value_or(1.0 / std::sqrt(static_cast<double>(last_dim(q)))),
      .cap = op.attributes.softcap,
      .has_bias = extras.bias.is_there(),
      .has_sinks = extras.sinks.is_there(),
      .probability = op.attributes.probability};
  at.rows = rows_of_all({at.q, at.k, at.v});
  if (at.has_bias) {
    const Array seen = part_of_dim(extras.bias, 3, 0, at.keys);
    at.bias = elements(broadcast(seen, {q.shape[0], at.heads, at.tokens, at.keys}));
  }
  if (at.has_sinks) at.sinks = elements(extras.sinks);
  if (at.probability > 0.0) at.random = elements(extras.random);
  return at;
}

Array make_logsumexp(Memory& memory, const Op& op, const Array& q, bool is_aligned) {
  const std::int64_t tokens = q.shape[1];
  const std::int64_t rows = is_aligned ? rounded_up(tokens, kAlignedRows) : tokens;
  return memory.make(statistics_type(q.type), {q.shape[0], heads_of(op), rows});
}

// The seed, which Backward reads.
Array make_random_state(Memory& memory, std::uint64_t seed) {
  Array state = memory.make(DataType::kInt64, {2});
  const std::uint64_t numbers[2] = {seed, 0};
  memory.device().copy_in(state.block->data, numbers, sizeof(numbers));
  return state;
}

void run_forward(ForwardRun& run, Extras& extras, bool is_aligned) {
  const Array& q = run.inputs[0];
  extras.logsumexp = make_logsumexp(run.memory, run.op, q, is_aligned);
  run.auxiliaries.push_back(extras.logsumexp);
  if (run.op.attributes.probability > 0.0) {
    extras.random = make_random_state(run.memory, run.seed);
    run.auxiliaries.push_back(extras.random);
  }
  const AttentionTensors at = attention_tensors(run.op, run.inputs, extras);
  run.outputs = {run.memory.make(q.type, {q.shape[0], at.tokens, at.heads * at.value_dim})};
  with_real(q.type, [&](auto real) {
    launch(run.memory.device(), q.shape[0] * at.heads * at.tokens,
           AttentionForward<decltype(real)>{at, elements(by_head(run.outputs[0], at.heads))});
  });
}

// A bias whose rows are no multiple of 8 is copied to such.
bool has_padded_bias(const Array& bias) { return last_dim(bias) % kAlignedKeys != 0; }

Array padded_bias(Memory& memory, const Array& bias) {
  Shape shape = bias.shape;
  shape.back() = rounded_up(shape.back(), kAlignedKeys);
  const Array out = memory.make_zeros(bias.type, shape);
  apply(memory, part_of_dim(out, 3, 0, last_dim(bias)), bias, Same{});
  return out;
}

void attention_forward(ForwardRun& run) {
  Extras extras;
  const OpAttributes& attributes = run.op.attributes;
  if (attributes.sinks) extras.sinks = run.inputs[3];
  const bool has_bias = !attributes.sinks && run.inputs.size() > 3;
  if (has_bias) extras.bias = run.inputs[3];
  if (has_bias && has_padded_bias(run.inputs[3])) {
    extras.bias = padded_bias(run.memory, run.inputs[3]);
    run.auxiliaries.push_back(extras.bias);
  }
  const bool is_one_width = head_dim_of(run.inputs[2], kv_heads_of(run.op)) ==
                            head_dim_of(run.inputs[0], heads_of(run.op));
  run_forward(run, extras, has_bias || !is_one_width);
}

// Numbers made of the flags of the mask: of each sample, for all heads.
void masked_attention_forward(ForwardRun& run) {
  const Array& q = run.inputs[0];
  const std::int64_t keys = run.inputs[1].shape[1];
  Extras extras{.bias = run.memory.make_zeros(
                    q.type, {q.shape[0], 1, q.shape[1], rounded_up(keys, kAlignedKeys)})};
  const Array& bias = extras.bias;
  with_real(q.type, [&](auto real) {
    launch(run.memory.device(), element_count(bias),
           AddMask<decltype(real)>{elements(bias), elements(bias), q.shape[1], last_dim(bias),
                                   run.op.attributes.window, run.op.attributes.causal, kHidden});
  });
  run.auxiliaries = {bias};
  run_forward(run, extras, true);
}

template <class Real>
void launch_gradients(BackwardRun& run, const AttentionGradients& of) {
  const AttentionTensors& at = of.at;
  const std::int64_t batch = run.inputs[0].shape[0];
  Device& device = run.memory.device();
  const auto gradient = [&](std::size_t input, std::int64_t heads) {
    return elements(by_head(run.gradients[input].array, heads));
  };
  launch(device, batch * at.heads * at.tokens, AttentionDots<Real>{of});
  launch(device, batch * at.heads * at.tokens,
         AttentionQueryGradient<Real>{of, gradient(0, at.heads)});
  launch(device, batch * at.kv_heads * at.keys,
         AttentionKeyGradient<Real>{of, gradient(1, at.kv_heads), gradient(2, at.kv_heads)});
  if (run.inputs.size() < 4 || !run.wants[3]) return;
  const Array& fourth = run.gradients[3].array;
  if (at.has_sinks) {
    launch(device, at.heads, AttentionSinkGradient<Real>{of, elements(fourth), batch});
  } else {
    launch(device, element_count(fourth),
           AttentionBiasGradient<Real>{of, elements(fourth), batch, fourth.shape[0] == 1});
  }
}

void run_backward(BackwardRun& run, const Extras& extras) {
  AttentionTensors at = attention_tensors(run.op, run.inputs, extras);
  const Array& q = run.inputs[0];
  const Array dots = run.memory.make(statistics_type(q.type), {q.shape[0], at.heads, at.tokens});
  run.workspaces = {dots};
  for (std::size_t i = 0; i < run.inputs.size(); ++i) {
    if (i > 2 && !run.wants[i]) continue;
    Array gradient = run.memory.make(run.inputs[i].type, run.inputs[i].shape);
    if (!run.wants[i]) run.workspaces.push_back(gradient);
    run.gradients[i].array = std::move(gradient);
  }
  const Elements gradient = elements(by_head(run.output_gradients[0], at.heads));
  at.rows = rows_of_all({at.q, at.k, at.v, gradient});
  const AttentionGradients of{at, elements(by_head(run.outputs[0], at.heads)), gradient,
                              elements(dots)};
  with_real(q.type, [&](auto real) { launch_gradients<decltype(real)>(run, of); });
}

Extras kept_extras(const BackwardRun& run, std::size_t first) {
  Extras extras{.logsumexp = run.auxiliaries[first]};
  if (run.op.attributes.probability > 0.0) extras.random = run.auxiliaries[first + 1];
  return extras;
}

void attention_backward(BackwardRun& run) {
  const bool has_sinks = run.op.attributes.sinks;
  const bool has_bias = !has_sinks && run.inputs.size() > 3;
  const bool is_padded = has_bias && has_padded_bias(run.inputs[3]);
  Extras extras = kept_extras(run, is_padded ? 1 : 0);
  if (has_sinks) extras.sinks = run.inputs[3];
  if (has_bias) extras.bias = is_padded ? run.auxiliaries[0] : run.inputs[3];
  run_backward(run, extras);
}

void masked_attention_backward(BackwardRun& run) {
  Extras extras = kept_extras(run, 1);
  extras.bias = run.auxiliaries[0];
  run_backward(run, extras);
}

std::string refuse_wide_heads(const Graph& graph, const Op& op) {
  for (const std::size_t input : {std::size_t{0}, std::size_t{2}}) {
    const std::int64_t heads = input == 0 ? heads_of(op) : kv_heads_of(op);
    const std::int64_t width = graph.tensor(op.inputs[input]).shape.back() / heads;
    if (width <= kMaxHeadDim) continue;
    return fmt::format("heads of {}; the kernel has at most {}", width, kMaxHeadDim);
  }
  return {};
}

}  // namespace

std::vector<Kernel> attention_kernels() {
  return {
      {"attention", attention_forward, attention_backward, refuse_wide_heads},
      {"masked_attention", masked_attention_forward, masked_attention_backward, refuse_wide_heads}};
}

}  // namespace cairn
