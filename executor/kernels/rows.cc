#include "executor/kernels/kernels.h"

// Ops along the last dim.

namespace cairn {
namespace {

void softmax_forward(ForwardRun& run, bool is_log) {
  const Array& x = run.inputs[0];
  const DataType type = run.op.attributes.data_type.value_or(x.type);
  run.outputs = {run.memory.make(x.type == DataType::kFloat64 ? x.type : type, x.shape)};
  with_real(run.outputs[0].type, [&](auto real) {
    launch(run.memory.device(), row_count(x),
           RowSoftmax<decltype(real)>{elements(run.outputs[0]), elements(x), last_dim(x), is_log});
  });
}

void softmax_backward(BackwardRun& run, bool is_log) {
  const Array& y = run.outputs[0];
  Array out = run.memory.make(run.inputs[0].type, y.shape);
  with_real(out.type, [&](auto real) {
    launch(run.memory.device(), row_count(y),
           RowSoftmaxGradient<decltype(real)>{elements(out), elements(run.output_gradients[0]),
                                              elements(y), last_dim(y), is_log});
  });
  run.gradients[0] = {.array = std::move(out)};
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

}  // namespace

std::vector<Kernel> row_kernels() {
  return {
      {"softmax", [](ForwardRun& run) { softmax_forward(run, false); },
       [](BackwardRun& run) { softmax_backward(run, false); }},
      {"log_softmax", [](ForwardRun& run) { softmax_forward(run, true); },
       [](BackwardRun& run) { softmax_backward(run, true); }},
      {"mean", mean_forward,
       [](BackwardRun& run) { spread(run, 1.0 / static_cast<double>(last_dim(run.inputs[0]))); }},
      {"sum", sum_forward, [](BackwardRun& run) { spread(run, 1.0); }},
  };
}

}  // namespace cairn
