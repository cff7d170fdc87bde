#include "executor/kernels/kernels.h"

// From images to tokens, and what vision transformers do to their tokens.

namespace cairn {
namespace {

// Each pixel a token of `channels`.
void to_tokens_forward(ForwardRun& run) {
  const Array& x = run.inputs[0];
  const Array pixels = reshaped(x, {x.shape[0], x.shape[1], x.shape[2] * x.shape[3]});
  run.outputs = {with_dims_swapped(pixels, 1, 2)};
}

void to_tokens_backward(BackwardRun& run) {
  const Array pixels = with_dims_swapped(run.output_gradients[0], 1, 2);
  run.gradients[0].array = reshaped(pixels, run.inputs[0].shape);
}

// [rows, columns, heads] as [1, heads, rows, columns]
void heads_first_forward(ForwardRun& run) {
  const Array& x = run.inputs[0];
  Array out = with_dims_swapped(with_dims_swapped(x, 1, 2), 0, 1);
  out.shape.insert(out.shape.begin(), 1);
  out.strides.insert(out.strides.begin(), element_count(x));
  run.outputs = {std::move(out)};
}

void heads_first_backward(BackwardRun& run) {
  Array out = run.output_gradients[0];
  out.shape.erase(out.shape.begin());
  out.strides.erase(out.strides.begin());
  run.gradients[0].array = with_dims_swapped(with_dims_swapped(std::move(out), 0, 1), 1, 2);
}

// The middle of an image.
Array cropped(const Op& op, const Array& x) {
  const std::int64_t side = op.attributes.rows;
  const Array rows = part_of_dim(x, 2, (x.shape[2] - side) / 2, side);
  return part_of_dim(rows, 3, (x.shape[3] - side) / 2, side);
}

Array first_token(const Op&, const Array& x) {
  return reshaped(part_of_dim(x, 1, 0, 1), {x.shape[0], x.shape[2]});
}

template <Array (*kPart)(const Op&, const Array&)>
void part_forward(ForwardRun& run) {
  run.outputs = {kPart(run.op, run.inputs[0])};
}

void prepend_token_forward(ForwardRun& run) {
  const Array& x = run.inputs[0];
  const Array& token = run.inputs[1];
  Shape shape = x.shape;
  shape[1] += 1;
  run.outputs = {run.memory.make(promoted_type(x.type, token.type), shape)};
  apply(run.memory, part_of_dim(run.outputs[0], 1, 0, 1), token, Same{});
  apply(run.memory, part_of_dim(run.outputs[0], 1, 1, x.shape[1]), x, Same{});
}

void prepend_token_backward(BackwardRun& run) {
  const Array& gradient = run.output_gradients[0];
  const Array& x = run.inputs[0];
  if (run.wants[0]) {
    run.gradients[0].array = summed_to(run.memory, part_of_dim(gradient, 1, 1, x.shape[1]), x);
  }
  if (run.wants[1]) {
    run.gradients[1].array = summed_to(run.memory, part_of_dim(gradient, 1, 0, 1), run.inputs[1]);
  }
}

void add_weight_forward(ForwardRun& run) {
  const Array& x = run.inputs[0];
  const Array& weight = run.inputs[1];
  run.outputs = {run.memory.make(promoted_type(x.type, weight.type), x.shape)};
  apply(run.memory, run.outputs[0], x, weight, Sum{});
}

void add_weight_backward(BackwardRun& run) {
  for (std::size_t i = 0; i < 2; ++i) {
    if (!run.wants[i]) continue;
    run.gradients[i].array = summed_to(run.memory, run.output_gradients[0], run.inputs[i]);
  }
}

}  // namespace

std::vector<Kernel> token_kernels() {
  return {
      {"to_tokens", to_tokens_forward, to_tokens_backward},
      {"heads_first", heads_first_forward, heads_first_backward},
      {"crop", part_forward<cropped>, part_backward<cropped>},
      {"first_token", part_forward<first_token>, part_backward<first_token>},
      {"prepend_token", prepend_token_forward, prepend_token_backward},
      {"add_weight", add_weight_forward, add_weight_backward},
  };
}

}  // namespace cairn
