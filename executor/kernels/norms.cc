#include "executor/kernels/kernels.h"
#include "graph/ops/op_kind.h"

// LayerNorm and RMSNorm as one kernel each.

namespace cairn {
namespace {

// Of torch.nn.LayerNorm, and of liger-kernel's LigerRMSNorm.
double epsilon(const Op& op) {
  return op.attributes.constant.value_or(op.kind->name == "layer_norm" ? 1e-5 : 1e-6);
}

struct NormArrays {
  const Array& x;
  const Array& weight;
  const std::vector<Array>& statistics;  // [mean,] rstd
};

NormTensors norm_tensors(const NormArrays& of) {
  NormTensors norm{.x = elements(of.x),
                   .weight = elements(of.weight),
                   .rstd = elements(of.statistics.back()),
                   .width = last_dim(of.x),
                   .is_centred = of.statistics.size() == 2};
  if (norm.is_centred) norm.mean = elements(of.statistics[0]);
  return norm;
}

void norm_forward(ForwardRun& run, std::size_t statistics) {
  const Array& x = run.inputs[0];
  Shape rows = x.shape;
  rows.back() = 1;
  for (std::size_t i = 0; i < statistics; ++i) {
    run.auxiliaries.push_back(run.memory.make(statistics_type(x.type), rows));
  }
  run.outputs = {run.memory.make(x.type, x.shape)};
  const bool has_bias = run.inputs.size() > 2;
  with_real(x.type, [&](auto real) {
    launch(run.memory.device(), row_count(x),
           RowNorm<decltype(real)>{
               norm_tensors({x, run.inputs[1], run.auxiliaries}), elements(run.outputs[0]),
               has_bias ? elements(run.inputs[2]) : Elements{}, has_bias, epsilon(run.op)});
  });
}

void norm_backward(BackwardRun& run) {
  const Array& x = run.inputs[0];
  const Array& gradient = run.output_gradients[0];
  Device& device = run.memory.device();
  if (run.wants[1]) run.gradients[1].array = run.memory.make(x.type, {last_dim(x)});
  with_real(x.type, [&](auto real) {
    using Real = decltype(real);
    if (run.wants[1]) {
      // The weight is not read for its own gradient, and may not have been saved.
      NormTensors norm = norm_tensors({x, x, run.auxiliaries});
      launch(device, last_dim(x),
             NormWeightGradient<Real>{norm, elements(run.gradients[1].array), elements(gradient),
                                      row_count(x)});
    }
    if (run.inputs.size() > 2 && run.wants[2]) {
      run.gradients[2].array = summed_to(run.memory, gradient, run.inputs[2]);
    }
    if (!run.wants[0]) return;
    // Each row is read before it is written: the gradient of the input takes the output's place.
    Array out = run.op.attributes.gradient_in_place ? gradient : run.memory.make(x.type, x.shape);
    launch(device, row_count(x),
           RowNormGradient<Real>{norm_tensors({x, run.inputs[1], run.auxiliaries}), elements(out),
                                 elements(gradient)});
    run.gradients[0].array = std::move(out);
  });
}

}  // namespace

std::vector<Kernel> norm_kernels() {
  return {
      {"layer_norm", [](ForwardRun& run) { norm_forward(run, 2); }, norm_backward},
      {"rms_norm", [](ForwardRun& run) { norm_forward(run, 1); }, norm_backward},
  };
}

}  // namespace cairn
