#include "executor/kernels/kernels.h"

// Matrix products by the device's library: linear layers, and the two products of eager attention.

namespace cairn {
namespace {

void linear_forward(ForwardRun& run) {
  const Array& x = run.inputs[0];
  const Array& weight = run.inputs[1];
  Shape shape = x.shape;
  shape.back() = run.op.attributes.width;
  run.outputs = {run.memory.make(x.type, shape)};
  multiply(run.memory, rows_of(x), false, weight, true, rows_of(run.outputs[0]));
  if (run.inputs.size() > 2) {
    apply(run.memory, run.outputs[0], run.outputs[0], run.inputs[2], Sum{});
  }
}

void linear_backward(BackwardRun& run) {
  const Array& x = run.inputs[0];
  const Array gradient = rows_of(run.output_gradients[0]);
  if (run.wants[0]) {
    Array out = run.memory.make(x.type, x.shape);
    multiply(run.memory, gradient, false, run.inputs[1], false, rows_of(out));
    run.gradients[0] = {.array = std::move(out), .is_view = x.shape.size() > 2};
  }
  if (run.wants[1]) {
    Array out = run.memory.make(x.type, {run.op.attributes.width, last_dim(x)});
    multiply(run.memory, gradient, true, rows_of(x), false, out);
    run.gradients[1] = {.array = std::move(out), .is_view = true};
  }
  if (run.inputs.size() > 2 && run.wants[2]) {
    run.gradients[2] = {.array = summed_to(run.memory, gradient, run.inputs[2])};
  }
}

// [batch, tokens, heads * width] as [batch, heads, tokens, width]
Array heads_first(const Array& x, std::int64_t heads) {
  return with_dims_swapped(by_head(x, heads), 1, 2);
}

// In place, by a factor where one is stated.
void scale_by_constant(Memory& memory, const Op& op, const Array& x) {
  if (op.attributes.constant) apply(memory, x, x, Affine{*op.attributes.constant, 0.0});
}

void scores_forward(ForwardRun& run) {
  const std::int64_t heads = run.op.attributes.heads;
  const Array& q = run.inputs[0];
  const Array& k = run.inputs[1];
  run.outputs = {run.memory.make(q.type, {q.shape[0], heads, q.shape[1], k.shape[1]})};
  multiply(run.memory, heads_first(q, heads), false, heads_first(k, heads), true, run.outputs[0]);
  scale_by_constant(run.memory, run.op, run.outputs[0]);
}

void scores_backward(BackwardRun& run) {
  const std::int64_t heads = run.op.attributes.heads;
  const Array& gradient = run.output_gradients[0];
  if (run.wants[0]) {
    run.gradients[0].array = run.memory.make(run.inputs[0].type, run.inputs[0].shape);
    multiply(run.memory, gradient, false, heads_first(run.inputs[1], heads), false,
             heads_first(run.gradients[0].array, heads));
    scale_by_constant(run.memory, run.op, run.gradients[0].array);
  }
  if (run.wants[1]) {
    run.gradients[1].array = run.memory.make(run.inputs[1].type, run.inputs[1].shape);
    multiply(run.memory, gradient, true, heads_first(run.inputs[0], heads), false,
             heads_first(run.gradients[1].array, heads));
    scale_by_constant(run.memory, run.op, run.gradients[1].array);
  }
}

void values_forward(ForwardRun& run) {
  const std::int64_t heads = run.op.attributes.heads;
  const Array& probabilities = run.inputs[0];
  const Array& v = run.inputs[1];
  const std::int64_t width = heads * last_dim(by_head(v, heads));
  run.outputs = {run.memory.make(v.type, {v.shape[0], probabilities.shape[2], width})};
  multiply(run.memory, probabilities, false, heads_first(v, heads), false,
           heads_first(run.outputs[0], heads));
}

void values_backward(BackwardRun& run) {
  const std::int64_t heads = run.op.attributes.heads;
  const Array gradient = heads_first(run.output_gradients[0], heads);
  if (run.wants[0]) {
    run.gradients[0].array = run.memory.make(run.inputs[0].type, run.inputs[0].shape);
    multiply(run.memory, gradient, false, heads_first(run.inputs[1], heads), true,
             run.gradients[0].array);
  }
  if (run.wants[1]) {
    run.gradients[1].array = run.memory.make(run.inputs[1].type, run.inputs[1].shape);
    multiply(run.memory, run.inputs[0], true, gradient, false,
             heads_first(run.gradients[1].array, heads));
  }
}

}  // namespace

std::vector<Kernel> linear_kernels() {
  return {
      {"linear", linear_forward, linear_backward},
      {"attention_scores", scores_forward, scores_backward},
      {"attention_values", values_forward, values_backward},
  };
}

}  // namespace cairn
