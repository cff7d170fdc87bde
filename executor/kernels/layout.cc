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

// Where the last dim is cut or joined head by head, its heads as a dim of their own.
Array cut_by_head(const Op& op, const Array& x) {
  return op.attributes.heads > 0 ? by_head(x, op.attributes.heads) : x;
}

// Of one head, where widths are those of all.
std::vector<std::int64_t> parts_of(const Op& op, std::int64_t extent) {
  std::vector<std::int64_t> parts = part_extents(op.attributes, extent);
  if (op.attributes.heads == 0 || op.attributes.widths.empty()) return parts;
  for (std::int64_t& part : parts) part /= op.attributes.heads;
  return parts;
}

void split_heads_forward(ForwardRun& run) {
  run.outputs = {by_head(run.inputs[0], run.op.attributes.heads)};
}

void merge_heads_forward(ForwardRun& run) { run.outputs = {with_heads_joined(run.inputs[0])}; }

void flatten_forward(ForwardRun& run) {
  const Array& x = run.inputs[0];
  run.outputs = {reshaped(x, {x.shape[0], element_count(x) / x.shape[0]})};
}

// The output's gradient seen in the input's shape; a part of each head stays one.
void view_backward(BackwardRun& run) {
  const Array& gradient = run.output_gradients[0];
  run.gradients[0].array = try_reshaped(gradient, run.inputs[0].shape).value_or(gradient);
}

// The part of x that a slice sees.
Array sliced(const Op& op, const Array& x) {
  const Array whole = cut_by_head(op, x);
  const std::vector<std::int64_t> parts = parts_of(op, last_dim(whole));
  const auto part = parts.begin() + static_cast<std::ptrdiff_t>(op.attributes.part);
  const std::int64_t begin = std::accumulate(parts.begin(), part, std::int64_t{0});
  return part_of_dim(whole, whole.shape.size() - 1, begin, *part);
}

void slice_forward(ForwardRun& run) { run.outputs = {sliced(run.op, run.inputs[0])}; }

void split_forward(ForwardRun& run) {
  const Array x = cut_by_head(run.op, run.inputs[0]);
  const std::size_t dim = stated_dim(run.op, x);
  std::int64_t begin = 0;
  for (const std::int64_t extent : parts_of(run.op, x.shape[dim])) {
    run.outputs.push_back(part_of_dim(x, dim, begin, extent));
    begin += extent;
  }
}

void split_backward(BackwardRun& run) {
  const Array& x = run.inputs[0];
  Array out = run.memory.make(x.type, x.shape);
  const Array whole = cut_by_head(run.op, out);
  const std::size_t dim = stated_dim(run.op, whole);
  std::int64_t begin = 0;
  for (std::size_t i = 0; i < run.outputs.size(); ++i) {
    const std::int64_t extent = run.outputs[i].shape[dim];
    const Array part = part_of_dim(whole, dim, begin, extent);
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
  std::vector<Array> inputs;
  for (const Array& x : run.inputs) inputs.push_back(cut_by_head(run.op, x));
  const std::size_t dim = stated_dim(run.op, inputs[0]);
  Shape shape = inputs[0].shape;
  shape[dim] = 0;
  DataType type = inputs[0].type;
  for (const Array& x : inputs) {
    shape[dim] += x.shape[dim];
    type = promoted_type(type, x.type);
  }
  const Array out = run.memory.make(type, shape);
  std::int64_t begin = 0;
  for (const Array& x : inputs) {
    apply(run.memory, part_of_dim(out, dim, begin, x.shape[dim]), x, Same{});
    begin += x.shape[dim];
  }
  run.outputs = {run.op.attributes.heads > 0 ? with_heads_joined(out) : out};
}

// Slices of the output's gradient, cast for an input of another type.
void cat_backward(BackwardRun& run) {
  const Array gradient = cut_by_head(run.op, run.output_gradients[0]);
  const std::size_t dim = stated_dim(run.op, gradient);
  std::int64_t begin = 0;
  for (std::size_t i = 0; i < run.inputs.size(); ++i) {
    const std::int64_t extent = cut_by_head(run.op, run.inputs[i]).shape[dim];
    if (run.wants[i]) {
      run.gradients[i].array =
          summed_to(run.memory, part_of_dim(gradient, dim, begin, extent), run.inputs[i]);
    }
    begin += extent;
  }
}

void split_ids_backward(BackwardRun&) {}

}  // namespace

std::vector<Kernel> layout_kernels() {
  return {
      {"split_heads", split_heads_forward, view_backward},
      {"merge_heads", merge_heads_forward, view_backward},
      {"flatten", flatten_forward, view_backward},
      {"slice", slice_forward, part_backward<sliced>},
      {"split", split_forward, split_backward},
      {"split_ids", split_forward, split_ids_backward},
      {"cat", cat_forward, cat_backward},
  };
}

}  // namespace cairn
