#include "executor/kernels/kernels.h"

// Ops along the last dim.

namespace cairn {
namespace {

// The classes of images, [batch, classes, height, width], are the rows of a logarithm of a softmax.
Array rows_of_classes(const Array& x, bool is_log) {
  return is_log && x.shape.size() == 4 ? with_channels_last(x) : x;
}

void softmax_forward(ForwardRun& run, bool is_log) {
  const Array& x = run.inputs[0];
  const DataType type = run.op.attributes.data_type.value_or(x.type);
  run.outputs = {run.memory.make(x.type == DataType::kFloat64 ? x.type : type, x.shape)};
  const std::int64_t rows = run.op.attributes.causal ? x.shape[x.shape.size() - 2] : 0;
  const Array in = rows_of_classes(x, is_log);
  const Array out = rows_of_classes(run.outputs[0], is_log);
  with_real(out.type, [&](auto real) {
    launch(run.memory.device(), row_count(in),
           RowSoftmax<decltype(real)>{elements(out), elements(in), last_dim(in), is_log, rows});
  });
}

void softmax_backward(BackwardRun& run, bool is_log) {
  Array made = run.memory.make(run.inputs[0].type, run.outputs[0].shape);
  const Array out = rows_of_classes(made, is_log);
  const Array y = rows_of_classes(run.outputs[0], is_log);
  const Array gradient = rows_of_classes(run.output_gradients[0], is_log);
  with_real(out.type, [&](auto real) {
    launch(run.memory.device(), row_count(y),
           RowSoftmaxGradient<decltype(real)>{elements(out), elements(gradient), elements(y),
                                              last_dim(y), is_log});
  });
  run.gradients[0] = {.array = std::move(made)};
}

void row_sum(Memory& memory, const Array& out, const Array& x, double factor) {
  with_real(out.type, [&](auto real) {
    launch(memory.device(), row_count(x),
           RowSum<decltype(real)>{elements(out), elements(x), last_dim(x), factor});
  });
}

Shape one_a_row(const Array& x) {
  Shape shape = x.shape;
  shape.back() = 1;
  return shape;
}

void mean_forward(ForwardRun& run) {
  const Array& x = run.inputs[0];
  run.outputs = {run.memory.make(x.type, one_a_row(x))};
  row_sum(run.memory, run.outputs[0], x, 1.0 / static_cast<double>(last_dim(x)));
}

void sum_forward(ForwardRun& run) {
  const Array& x = run.inputs[0];
  run.outputs = {run.memory.make(x.type, one_a_row(x))};
  row_sum(run.memory, run.outputs[0], x, 1.0);
}

void spread(BackwardRun& run, double factor) {
  Array out = run.memory.make(run.inputs[0].type, run.inputs[0].shape);
  apply(run.memory, out, run.output_gradients[0], Affine{factor, 0.0});
  run.gradients[0] = {.array = std::move(out)};
}

void mean_backward(BackwardRun& run) {
  spread(run, 1.0 / static_cast<double>(last_dim(run.inputs[0])));
}

std::string refuse_flat_mask(const Graph& graph, const Op& op) {
  const bool is_matrix = graph.tensor(op.inputs[0]).shape.size() > 1;
  return !op.attributes.causal || is_matrix ? "" : "a causal mask of fewer than two dims";
}

}  // namespace

std::vector<Kernel> row_kernels() {
  return {
      {"softmax", [](ForwardRun& run) { softmax_forward(run, false); },
       [](BackwardRun& run) { softmax_backward(run, false); }, refuse_flat_mask},
      {"log_softmax", [](ForwardRun& run) { softmax_forward(run, true); },
       [](BackwardRun& run) { softmax_backward(run, true); }},
      {"mean", mean_forward, mean_backward},
      {"mean_saving_input", mean_forward, mean_backward},
      {"sum", sum_forward, [](BackwardRun& run) { spread(run, 1.0); }},
  };
}

}  // namespace cairn
