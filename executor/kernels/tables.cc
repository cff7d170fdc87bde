#include "executor/kernels/kernels.h"

// Embeddings, and masks made of positions.

namespace cairn {
namespace {

constexpr double kHidden = -1e9;  // a score that no softmax sees

void embedding_forward(ForwardRun& run) {
  const Array& ids = run.inputs[0];
  const Array& table = run.inputs[1];
  Shape shape = ids.shape;
  shape.push_back(last_dim(table));
  run.outputs = {run.memory.make(table.type, shape)};
  with_real(table.type, [&](auto real) {
    launch(run.memory.device(), element_count(run.outputs[0]),
           Lookup<decltype(real)>{elements(run.outputs[0]), elements(table), elements(ids),
                                  last_dim(table)});
  });
}

void embedding_backward(BackwardRun& run) {
  const Array& ids = run.inputs[0];
  const Array& gradient = run.output_gradients[0];
  Array out = run.memory.make_zeros(run.inputs[1].type, run.inputs[1].shape);
  with_real(out.type, [&](auto real) {
    launch(run.memory.device(), last_dim(out),
           LookupGradient<decltype(real)>{elements(out), elements(gradient), elements(ids),
                                          last_dim(out), element_count(ids)});
  });
  run.gradients[1] = {.array = std::move(out)};
}

void mask_causal_forward(ForwardRun& run) {
  const Array& x = run.inputs[0];
  const std::size_t rank = x.shape.size();
  const std::int64_t rows = x.shape[rank - 2];
  run.outputs = {run.memory.make(x.type, x.shape)};
  run.auxiliaries = {run.memory.make(DataType::kBool, {rows, last_dim(x)})};
  with_real(x.type, [&](auto real) {
    launch(run.memory.device(), element_count(x),
           MaskCausal<decltype(real)>{elements(run.outputs[0]), elements(x),
                                      elements(run.auxiliaries[0]), rows, last_dim(x),
                                      run.op.attributes.constant.value_or(kHidden)});
  });
}

void mask_causal_backward(BackwardRun& run) {
  const Array& flags = run.auxiliaries[0];
  Array out = run.memory.make(run.inputs[0].type, run.inputs[0].shape);
  with_real(out.type, [&](auto real) {
    launch(run.memory.device(), element_count(out),
           MaskCausalGradient<decltype(real)>{elements(out), elements(run.output_gradients[0]),
                                              elements(flags), element_count(flags)});
  });
  run.gradients[0] = {.array = std::move(out)};
}

}  // namespace

std::vector<Kernel> table_kernels() {
  return {
      {"embedding", embedding_forward, embedding_backward},
      {"mask_causal", mask_causal_forward, mask_causal_backward},
  };
}

}  // namespace cairn
