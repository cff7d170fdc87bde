#include "executor/kernels/kernels.h"

// Gated activations and rotary positions as one kernel each.

namespace cairn {
namespace {

struct Halves {
  Array gate = {};
  Array up = {};
};

// Of one tensor that holds both, or two.
Halves halves_of(const std::vector<Array>& arrays) {
  if (arrays.size() == 2) return {arrays[0], arrays[1]};
  const std::size_t dim = arrays[0].shape.size() - 1;
  const std::int64_t width = last_dim(arrays[0]) / 2;
  return {part_of_dim(arrays[0], dim, 0, width), part_of_dim(arrays[0], dim, width, width)};
}

template <class Activation>
void gated_forward(ForwardRun& run) {
  const Halves halves = halves_of(run.inputs);
  run.outputs = {run.memory.make(halves.gate.type, halves.gate.shape)};
  apply(run.memory, run.outputs[0], halves.gate, halves.up, GatedBy<Activation>{});
}

template <class Activation, class ActivationGradient>
void gated_backward(BackwardRun& run) {
  std::vector<Array> gradients;
  for (std::size_t i = 0; i < run.inputs.size(); ++i) {
    const Array& x = run.inputs[i];
    gradients.push_back(run.op.attributes.gradient_in_place ? x : run.memory.make(x.type, x.shape));
  }
  const Halves in = halves_of(run.inputs);
  const Halves out = halves_of(gradients);
  with_real(in.gate.type, [&](auto real) {
    launch(run.memory.device(), element_count(in.gate),
           GatedGradient<decltype(real), Activation, ActivationGradient>{
               elements(out.gate), elements(out.up), elements(in.gate), elements(in.up),
               elements(run.output_gradients[0])});
  });
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    if (run.wants[i]) {
      run.gradients[i].array = gradients[i];
    } else if (!run.op.attributes.gradient_in_place) {
      run.workspaces.push_back(gradients[i]);
    }
  }
}

void rotate(Memory& memory, const Op& op, const Array& out, const Array& x,
            const std::vector<Array>& tables, bool is_backward) {
  const std::int64_t heads =
      op.attributes.heads > 0 ? op.attributes.heads : last_dim(x) / last_dim(tables[0]);
  const Array by_heads = by_head(x, heads);
  with_real(x.type, [&](auto real) {
    launch(
        memory.device(), element_count(x) / 2,
        Rotate<decltype(real)>{elements(by_head(out, heads)), elements(by_heads),
                               elements(tables[0]), elements(tables[1]), by_heads.shape[1], heads,
                               last_dim(by_heads), last_dim(tables[0]),
                               tables[0].shape.size() == 3 ? tables[0].shape[0] : 1, is_backward});
  });
}

void rope_forward(ForwardRun& run) {
  const Array& x = run.inputs[0];
  run.outputs = {run.op.attributes.in_place ? x : run.memory.make(x.type, x.shape)};
  rotate(run.memory, run.op, run.outputs[0], x, {run.inputs[1], run.inputs[2]}, false);
}

void rope_backward(BackwardRun& run) {
  const Array& gradient = run.output_gradients[0];
  Array out =
      run.op.attributes.in_place ? gradient : run.memory.make(run.inputs[0].type, gradient.shape);
  rotate(run.memory, run.op, out, gradient, {run.inputs[1], run.inputs[2]}, true);
  run.gradients[0].array = std::move(out);
}

}  // namespace

std::vector<Kernel> gated_kernels() {
  return {
      {"swiglu", gated_forward<Silu>, gated_backward<Silu, SiluGradient>},
      {"geglu", gated_forward<GeluTanh>, gated_backward<GeluTanh, GeluTanhGradient>},
      {"rope", rope_forward, rope_backward},
  };
}

}  // namespace cairn
