#include <numeric>

#include "executor/kernels/kernels.h"

// Views of other shapes, parts of a dim, and concatenation.

namespace cairn {
namespace {

std::size_t stated_dim(const Op& op, const Array& x) {
  const auto rank = static_cast<std::int64_t>(x.shape.size());
  return static_cast<std::size_t>(op.attributes.axis < 0 ? rank + op.attributes.axis
                                                         : op.attributes.axis);
}

// Of the parts that a split or slice makes along a dim of that extent.
std::vector<std::int64_t> part_extents(const OpAttributes& attributes, std::int64_t extent) {
  if (!attributes.widths.empty()) return attributes.widths;
  std::vector<std::int64_t> parts;
  const std::int64_t width = attributes.width > 0 ? attributes.width : extent / attributes.parts;
  for (std::int64_t begin = 0; begin < extent; begin += width) {
    parts.push_back(std::min(width, extent - begin));
  }
  return parts;
}

void split_heads_forward(ForwardRun& run) {
  const Array& x = run.inputs[0];
  Shape shape = x.shape;
  shape.back() = run.op.attributes.heads;
  shape.push_back(last_dim(x) / run.op.attributes.heads);
  run.outputs = {reshaped(x, shape)};
}

void merge_heads_forward(ForwardRun& run) {
  const Array& x = run.inputs[0];
  Shape shape(x.shape.begin(), x.shape.end() - 1);
  shape.back() *= last_dim(x);
  run.outputs = {reshaped(x, shape)};
}

void flatten_forward(ForwardRun& run) {
  const Array& x = run.inputs[0];
  run.outputs = {reshaped(x, {x.shape[0], element_count(x) / x.shape[0]})};
}

// The output's gradient seen in the input's shape.
void view_backward(BackwardRun& run) {
  run.gradients[0] = {.array = reshaped(run.output_gradients[0], run.inputs[0].shape)};
}

// The part of x that a slice sees.
Array sliced(const Op& op, const Array& x) {
  const std::vector<std::int64_t> parts = part_extents(op.attributes, last_dim(x));
  const auto part = parts.begin() + static_cast<std::ptrdiff_t>(op.attributes.part);
  const std::int64_t begin = std::accumulate(parts.begin(), part, std::int64_t{0});
  return part_of_dim(x, x.shape.size() - 1, begin, *part);
}

void slice_forward(ForwardRun& run) { run.outputs = {sliced(run.op, run.inputs[0])}; }

// Zeros of the input's shape, with the output's gradient in the part's place.
void slice_backward(BackwardRun& run) {
  Array out = run.memory.make(run.inputs[0].type, run.inputs[0].shape);
  run.memory.device().fill(out.block->data, 0, out.block->bytes);
  apply(run.memory, sliced(run.op, out), run.output_gradients[0], Same{});
  run.gradients[0] = {.array = std::move(out)};
}

void split_forward(ForwardRun& run) {
  const Array& x = run.inputs[0];
  const std::size_t dim = stated_dim(run.op, x);
  std::int64_t begin = 0;
  for (const std::int64_t extent : part_extents(run.op.attributes, x.shape[dim])) {
    run.outputs.push_back(part_of_dim(x, dim, begin, extent));
    begin += extent;
  }
}

void split_backward(BackwardRun& run) {
  const Array& x = run.inputs[0];
  const std::size_t dim = stated_dim(run.op, x);
  Array out = run.memory.make(x.type, x.shape);
  std::int64_t begin = 0;
  for (std::size_t i = 0; i < run.outputs.size(); ++i) {
    const std::int64_t extent = run.outputs[i].shape[dim];
    const Array part = part_of_dim(out, dim, begin, extent);
    begin += extent;
    if (run.output_gradients[i].is_there()) {
      apply(run.memory, part, run.output_gradients[i], Same{});
    } else {
      apply(run.memory, part, part, Constant{0.0});
    }
  }
  run.gradients[0] = {.array = std::move(out)};
}

void cat_forward(ForwardRun& run) {
  const std::size_t dim = stated_dim(run.op, run.inputs[0]);
  Shape shape = run.inputs[0].shape;
  shape[dim] = 0;
  DataType type = run.inputs[0].type;
  for (const Array& x : run.inputs) {
    shape[dim] += x.shape[dim];
    type = promoted_type(type, x.type);
  }
  run.outputs = {run.memory.make(type, shape)};
  std::int64_t begin = 0;
  for (const Array& x : run.inputs) {
    apply(run.memory, part_of_dim(run.outputs[0], dim, begin, x.shape[dim]), x, Same{});
    begin += x.shape[dim];
  }
}

// Slices of the output's gradient, cast for an input of another type.
void cat_backward(BackwardRun& run) {
  const std::size_t dim = stated_dim(run.op, run.inputs[0]);
  std::int64_t begin = 0;
  for (std::size_t i = 0; i < run.inputs.size(); ++i) {
    const Array& x = run.inputs[i];
    if (run.wants[i]) {
      run.gradients[i].array =
          summed_to(run.memory, part_of_dim(run.output_gradients[0], dim, begin, x.shape[dim]), x);
    }
    begin += x.shape[dim];
  }
}

}  // namespace

std::vector<Kernel> layout_kernels() {
  return {
      {"split_heads", split_heads_forward, view_backward},
      {"merge_heads", merge_heads_forward, view_backward},
      {"flatten", flatten_forward, view_backward},
      {"slice", slice_forward, slice_backward},
      {"split", split_forward, split_backward},
      {"cat", cat_forward, cat_backward},
  };
}

}  // namespace cairn
