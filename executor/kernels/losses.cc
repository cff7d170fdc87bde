#include "executor/kernels/kernels.h"

// The mean loss of next-token prediction, over rows of classes.

namespace cairn {
namespace {

void nll_forward(ForwardRun& run) {
  const Array& x = run.inputs[0];
  run.outputs = {run.memory.make(statistics_type(x.type), {1})};
  with_real(x.type, [&](auto real) {
    launch(run.memory.device(), 1,
           MeanNll<decltype(real)>{elements(run.outputs[0]), elements(x), elements(run.inputs[1]),
                                   row_count(x), last_dim(x)});
  });
}

void nll_backward(BackwardRun& run) {
  const Array& x = run.inputs[0];
  Array out = run.memory.make(x.type, x.shape);
  with_real(x.type, [&](auto real) {
    launch(run.memory.device(), element_count(x),
           NllGradient<decltype(real)>{elements(out), elements(run.output_gradients[0]),
                                       elements(run.inputs[1]), row_count(x), last_dim(x)});
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

}  // namespace

std::vector<Kernel> loss_kernels() {
  return {
      {"nll_loss", nll_forward, nll_backward},
      {"cross_entropy", cross_entropy_forward, cross_entropy_backward},
  };
}

}  // namespace cairn
