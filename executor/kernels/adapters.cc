#include "executor/kernels/kernels.h"

// What adapters of linear layers have beside these.

namespace cairn {
namespace {

void eye_forward(ForwardRun& run) {
  const Array& x = run.inputs[0];
  const std::int64_t width = last_dim(x);
  const DataType type = x.type == DataType::kFloat64 ? x.type : *run.op.attributes.data_type;
  run.outputs = {run.memory.make(type, {width, width})};
  with_real(type, [&](auto real) {
    launch(run.memory.device(), width * width,
           FillIdentity<decltype(real)>{elements(run.outputs[0]), width});
  });
}

void no_backward(BackwardRun&) {}

void transpose_forward(ForwardRun& run) { run.outputs = {with_dims_swapped(run.inputs[0], 0, 1)}; }

void transpose_backward(BackwardRun& run) {
  run.gradients[0].array = with_dims_swapped(run.output_gradients[0], 0, 1);
}

// detach, requires_grad: x itself.
void view_forward(ForwardRun& run) { run.outputs = {run.inputs[0]}; }

void row_norm_forward(ForwardRun& run) {
  const Array& x = run.inputs[0];
  run.outputs = {run.memory.make(x.type, {x.shape[0]})};
  with_real(x.type, [&](auto real) {
    launch(run.memory.device(), x.shape[0],
           RowLength<decltype(real)>{elements(run.outputs[0]), elements(x), last_dim(x)});
  });
}

void weight_over_forward(ForwardRun& run) {
  const Array& x = run.inputs[0];
  const Array& weight = run.inputs[1];
  run.outputs = {run.memory.make(promoted_type(weight.type, x.type), x.shape)};
  apply(run.memory, run.outputs[0], weight, x, Quotient{});
}

void weight_over_backward(BackwardRun& run) {
  if (!run.wants[1]) return;
  const Array& gradient = run.output_gradients[0];
  Array out = run.memory.make(gradient.type, gradient.shape);
  apply(run.memory, out, gradient, run.inputs[0], Quotient{});
  Array of_weight = summed_to(run.memory, out, run.inputs[1]);
  if (of_weight.block != out.block) run.workspaces = {out};
  run.gradients[1].array = std::move(of_weight);
}

// --- Columns of a wider tensor
// --------------------------------------------------------------------

// A number for each column of x: its own place, or a copy of what is stored.
void indices_forward(ForwardRun& run) {
  const bool has_stored = run.inputs.size() > 1;
  run.outputs = {run.memory.make(DataType::kInt64, {last_dim(run.inputs[0])})};
  launch(run.memory.device(), element_count(run.outputs[0]),
         CopyIntegers{elements(run.outputs[0]), has_stored ? elements(run.inputs[1]) : Elements{},
                      has_stored});
}

void copy_columns(Memory& memory, const Array& to, const Array& from, const Array& columns,
                  bool narrows) {
  const Array& narrow = narrows ? to : from;
  const Array& wide = narrows ? from : to;
  with_real(to.type, [&](auto real) {
    launch(memory.device(), element_count(narrow),
           CopyColumns<decltype(real)>{elements(to), elements(from), elements(columns),
                                       last_dim(narrow), last_dim(wide), narrows});
  });
}

void index_copy_forward(ForwardRun& run) {
  const Array& x = run.inputs[0];
  Shape shape = x.shape;
  shape.back() = run.op.attributes.width;
  run.outputs = {run.memory.make_zeros(x.type, shape)};
  copy_columns(run.memory, run.outputs[0], x, run.inputs[1], false);
}

void index_copy_backward(BackwardRun& run) {
  Array out = run.memory.make(run.inputs[0].type, run.inputs[0].shape);
  copy_columns(run.memory, out, run.output_gradients[0], run.inputs[1], true);
  run.gradients[0].array = std::move(out);
}

// --- A convolution of kernel 1
// --------------------------------------------------------------------

std::vector<std::int64_t> group_widths(const OpAttributes& attributes) {
  std::vector<std::int64_t> widths;
  for (const std::int64_t width : attributes.widths) {
    if (width > 0) widths.push_back(width);
  }
  if (!attributes.widths.empty()) return widths;
  const std::int64_t groups = attributes.groups == 0 ? 1 : attributes.groups;
  widths.assign(static_cast<std::size_t>(groups), attributes.width / groups);
  return widths;
}

// action(group's columns of x, of the output, and rows of the weight), each a begin and an extent.
template <class Action>
void for_each_group(const Op& op, const Array& x, const Action& action) {
  const std::vector<std::int64_t> widths = group_widths(op.attributes);
  const std::int64_t channels = last_dim(x) / static_cast<std::int64_t>(widths.size());
  std::int64_t first_channel = 0;
  std::int64_t begin = 0;
  for (const std::int64_t width : widths) {
    action(first_channel, channels, begin, width);
    first_channel += channels;
    begin += width;
  }
}

void conv1d_forward(ForwardRun& run) {
  const Array& x = run.inputs[0];
  const Array& weight = run.inputs[1];
  Shape shape = x.shape;
  shape.back() = weight.shape[0];
  run.outputs = {run.memory.make(x.type, shape)};
  const Array out = rows_of(run.outputs[0]);
  for_each_group(run.op, x, [&](auto channel, auto channels, auto begin, auto width) {
    multiply(run.memory, part_of_dim(rows_of(x), 1, channel, channels), false,
             part_of_dim(weight, 0, begin, width), true, part_of_dim(out, 1, begin, width));
  });
}

void conv1d_backward(BackwardRun& run) {
  const Array& x = run.inputs[0];
  const Array& weight = run.inputs[1];
  const Array gradient = rows_of(run.output_gradients[0]);
  for (std::size_t i = 0; i < 2; ++i) {
    if (run.wants[i]) {
      run.gradients[i].array = run.memory.make(run.inputs[i].type, run.inputs[i].shape);
    }
  }
  for_each_group(run.op, x, [&](auto channel, auto channels, auto begin, auto width) {
    const Array g = part_of_dim(gradient, 1, begin, width);
    if (run.wants[0]) {
      multiply(run.memory, g, false, part_of_dim(weight, 0, begin, width), false,
               part_of_dim(rows_of(run.gradients[0].array), 1, channel, channels));
    }
    if (run.wants[1]) {
      multiply(run.memory, g, true, part_of_dim(rows_of(x), 1, channel, channels), false,
               part_of_dim(run.gradients[1].array, 0, begin, width));
    }
  });
}

}  // namespace

std::vector<Kernel> adapter_kernels() {
  return {
      {"eye", eye_forward, no_backward},
      {"transpose", transpose_forward, transpose_backward},
      {"detach", view_forward, no_backward},
      {"requires_grad", view_forward, no_backward},
      {"row_norm", row_norm_forward, no_backward},
      {"weight_over", weight_over_forward, weight_over_backward},
      {"indices", indices_forward, no_backward},
      {"stored_indices", indices_forward, no_backward},
      {"index_copy", index_copy_forward, index_copy_backward},
      {"conv1d", conv1d_forward, conv1d_backward},
  };
}

}  // namespace cairn
