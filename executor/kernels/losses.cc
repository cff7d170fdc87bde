#include "executor/kernels/kernels.h"

// The mean loss of next-token prediction, over rows of classes.

namespace cairn {
namespace {

// Of images, [batch, classes, height, width], every pixel is a row.
Array rows_of_classes(const Array& x) { return x.shape.size() == 4 ? with_channels_last(x) : x; }

void nll_forward(ForwardRun& run) {
  const Array x = rows_of_classes(run.inputs[0]);
  run.outputs = {run.memory.make(statistics_type(x.type), {1})};
  with_real(x.type, [&](auto real) {
    launch(run.memory.device(), 1,
           MeanNll<decltype(real)>{elements(run.outputs[0]), elements(x), elements(run.inputs[1]),
                                   row_count(x), last_dim(x)});
  });
}

void nll_backward(BackwardRun& run) {
  Array out = run.memory.make(run.inputs[0].type, run.inputs[0].shape);
  const Array rows = rows_of_classes(out);
  with_real(out.type, [&](auto real) {
    launch(run.memory.device(), element_count(rows),
           NllGradient<decltype(real)>{elements(rows), elements(run.output_gradients[0]),
                                       elements(run.inputs[1]), row_count(rows), last_dim(rows)});
  });
  run.gradients[0] = {.array = std::move(out)};
}

void cross_entropy_forward(ForwardRun& run) {
  const Array& x = run.inputs[0];
  const DataType type = statistics_type(x.type);
  run.auxiliaries = {run.memory.make(type, x.shape)};
  run.outputs = {run.memory.make(type, {1})};
  with_real(x.type, [&](auto real) {
    using Real = decltype(real);
    launch(run.memory.device(), row_count(x),
           RowSoftmax<Real>{elements(run.auxiliaries[0]), elements(x), last_dim(x), false});
    launch(run.memory.device(), 1,
           MeanLogOf<Real>{elements(run.outputs[0]), elements(run.auxiliaries[0]),
                           elements(run.inputs[1]), row_count(x), last_dim(x)});
  });
}

void cross_entropy_backward(BackwardRun& run) {
  const Array& softmax = run.auxiliaries[0];
  Array out = run.memory.make(run.inputs[0].type, run.inputs[0].shape);
  with_real(out.type, [&](auto real) {
    launch(run.memory.device(), element_count(out),
           CrossEntropyGradient<decltype(real)>{elements(out), elements(run.output_gradients[0]),
                                                elements(softmax), elements(run.inputs[1]),
                                                row_count(softmax), last_dim(softmax)});
  });
  run.gradients[0] = {.array = std::move(out)};
}

// --- Gradient over the logits in forward
// -----------------------------------------------------------

LossRows loss_rows(const Array& x, const Array& labels) {
  return {.logits = elements(x),
          .labels = elements(labels),
          .width = last_dim(x),
          .total_rows = row_count(x)};
}

void in_place_forward(ForwardRun& run) {
  const Array& x = run.inputs[0];
  const DataType type = statistics_type(x.type);
  const Array losses = run.memory.make(type, {row_count(x)});
  const Array logsumexp = run.memory.make(type, {row_count(x)});
  run.workspaces = {losses, logsumexp};
  run.outputs = {run.memory.make(type, {1})};
  Device& device = run.memory.device();
  const LossRows rows = loss_rows(x, run.inputs[1]);
  with_real(x.type, [&](auto real) {
    using Real = decltype(real);
    launch(device, row_count(x), RowLoss<Real>{rows, elements(losses), elements(logsumexp)});
    launch(device, element_count(x), LogitGradient<Real>{rows, elements(logsumexp), elements(x)});
  });
  launch(device, 1, MeanOf{elements(run.outputs[0]), elements(losses), row_count(x)});
}

void in_place_backward(BackwardRun& run) {
  const Array& x = run.inputs[0];
  apply(run.memory, x, x, run.output_gradients[0], Product{});
  run.gradients[0].array = x;
}

// --- As one compiled region
// -----------------------------------------------------------------------

void compiled_forward(ForwardRun& run) {
  const Array& x = run.inputs[0];
  const DataType type = statistics_type(x.type);
  Shape shape = x.shape;
  shape.back() = 1;
  run.auxiliaries = {run.memory.make(type, shape), run.memory.make(type, shape)};
  run.outputs = {run.memory.make(type, {1})};
  Device& device = run.memory.device();
  with_real(x.type, [&](auto real) {
    using Real = decltype(real);
    launch(device, row_count(x),
           RowLogSum<Real>{elements(run.auxiliaries[0]), elements(run.auxiliaries[1]), elements(x),
                           last_dim(x)});
    launch(device, 1,
           MeanLossOf<Real>{elements(run.outputs[0]), elements(run.auxiliaries[0]),
                            elements(run.auxiliaries[1]), loss_rows(x, run.inputs[1])});
  });
}

void compiled_backward(BackwardRun& run) {
  const Array& x = run.inputs[0];
  Array out = run.memory.make(x.type, x.shape);
  with_real(x.type, [&](auto real) {
    launch(run.memory.device(), element_count(x),
           CompiledLossGradient<decltype(real)>{
               elements(out), elements(run.output_gradients[0]), elements(run.auxiliaries[0]),
               elements(run.auxiliaries[1]), loss_rows(x, run.inputs[1])});
  });
  run.gradients[0].array = std::move(out);
}

}  // namespace

std::vector<Kernel> loss_kernels() {
  return {
      {"nll_loss", nll_forward, nll_backward},
      {"cross_entropy", cross_entropy_forward, cross_entropy_backward},
      {"cross_entropy_in_place", in_place_forward, in_place_backward},
      {"cross_entropy_compiled", compiled_forward, compiled_backward},
  };
}

}  // namespace cairn
