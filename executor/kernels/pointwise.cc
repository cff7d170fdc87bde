#include "executor/kernels/kernels.h"

// Ops on one tensor, element by element.

namespace cairn {
namespace {

template <class Function>
void map_forward(ForwardRun& run, const Function& function) {
  const Array& x = run.inputs[0];
  run.outputs = {run.memory.make(x.type, x.shape)};
  apply(run.memory, run.outputs[0], x, function);
}

enum class Reads { kInput, kOutput };

template <class Gradient>
void map_backward(BackwardRun& run, Reads reads, const Gradient& gradient) {
  const Array& saved = reads == Reads::kInput ? run.inputs[0] : run.outputs[0];
  Array out = run.memory.make(run.inputs[0].type, run.inputs[0].shape);
  apply(run.memory, out, run.output_gradients[0], saved, gradient);
  run.gradients[0] = {.array = std::move(out)};
}

template <class Function, class Gradient, Reads kReads>
Kernel map_kernel(std::string_view kind) {
  return {.kind = kind,
          .forward = [](ForwardRun& run) { map_forward(run, Function{}); },
          .backward = [](BackwardRun& run) { map_backward(run, kReads, Gradient{}); }};
}

// --- With a constant
// ------------------------------------------------------------------------------

double constant(const Op& op, double otherwise) {
  return op.attributes.constant ? *op.attributes.constant : otherwise;
}

void pow_forward(ForwardRun& run) { map_forward(run, Power{constant(run.op, 2.0)}); }

// PyTorch makes exponent * x^(exponent - 1) in two steps before it is multiplied by the gradient.
void pow_backward(BackwardRun& run) {
  const Array& x = run.inputs[0];
  const double exponent = constant(run.op, 2.0);
  run.workspaces = {run.memory.make(x.type, x.shape), run.memory.make(x.type, x.shape)};
  apply(run.memory, run.workspaces[0], x, Power{exponent - 1.0});
  apply(run.memory, run.workspaces[1], run.workspaces[0], Affine{exponent, 0.0});
  Array out = run.memory.make(x.type, x.shape);
  apply(run.memory, out, run.output_gradients[0], run.workspaces[1], Product{});
  run.gradients[0] = {.array = std::move(out)};
}

void scale_forward(ForwardRun& run) { map_forward(run, Affine{constant(run.op, 1.0), 0.0}); }

void scale_backward(BackwardRun& run) {
  Array out = run.memory.make(run.inputs[0].type, run.inputs[0].shape);
  apply(run.memory, out, run.output_gradients[0], Affine{constant(run.op, 1.0), 0.0});
  run.gradients[0] = {.array = std::move(out)};
}

void add_scalar_forward(ForwardRun& run) {
  const Array& x = run.inputs[0];
  const DataType wide = run.op.attributes.data_type.value_or(x.type);
  run.outputs = {run.memory.make(promoted_type(x.type, wide), x.shape)};
  apply(run.memory, run.outputs[0], x, Affine{1.0, constant(run.op, 0.0)});
}

constexpr double kClampLimit = 7.0;

void clamp_forward(ForwardRun& run) {
  const double limit = constant(run.op, kClampLimit);
  map_forward(run, Clamp{-limit, limit});
}

void clamp_backward(BackwardRun& run) {
  const double limit = constant(run.op, kClampLimit);
  map_backward(run, Reads::kInput, ClampGradient{-limit, limit});
}

void neg_backward(BackwardRun& run) {
  Array out = run.memory.make(run.inputs[0].type, run.inputs[0].shape);
  apply(run.memory, out, run.output_gradients[0], Negated{});
  run.gradients[0] = {.array = std::move(out)};
}

// --- Of another type, and copies
// ------------------------------------------------------------------

void cast_forward(ForwardRun& run) {
  const Array& x = run.inputs[0];
  run.outputs = {run.memory.make(*run.op.attributes.data_type, x.shape)};
  apply(run.memory, run.outputs[0], x, Same{});
}

// The gradient of a copy, of a sum with a constant and of a cast: the output's, in the input's
// type.
void same_backward(BackwardRun& run) {
  run.gradients[0] = {.array = summed_to(run.memory, run.output_gradients[0], run.inputs[0])};
}

void copy_backward(BackwardRun& run) {
  if (run.op.attributes.gradient_in_place) return same_backward(run);
  Array out = run.memory.make(run.inputs[0].type, run.inputs[0].shape);
  apply(run.memory, out, run.output_gradients[0], Same{});
  run.gradients[0] = {.array = std::move(out)};
}

void relu_forward(ForwardRun& run) {
  if (!run.op.attributes.in_place) return map_forward(run, Relu{});
  run.outputs = {run.inputs[0]};
  apply(run.memory, run.outputs[0], run.inputs[0], Relu{});
}

// --- Dropout
// --------------------------------------------------------------------------------------

void dropout_forward(ForwardRun& run) {
  const Array& x = run.inputs[0];
  const double probability = run.op.attributes.probability;
  run.outputs = {run.memory.make(x.type, x.shape)};
  run.auxiliaries = {run.memory.make(DataType::kBool, x.shape)};
  with_real(x.type, [&](auto real) {
    launch(run.memory.device(), element_count(x),
           Dropout<decltype(real)>{elements(run.outputs[0]), elements(run.auxiliaries[0]),
                                   elements(x), run.seed, probability});
  });
}

void dropout_backward(BackwardRun& run) {
  Array out = run.memory.make(run.inputs[0].type, run.inputs[0].shape);
  const double factor = 1.0 / (1.0 - run.op.attributes.probability);
  apply(run.memory, out, run.output_gradients[0], run.auxiliaries[0], ScaledProduct{factor});
  run.gradients[0] = {.array = std::move(out)};
}

}  // namespace

std::vector<Kernel> pointwise_kernels() {
  return {
      map_kernel<Gelu, GeluGradient, Reads::kInput>("gelu"),
      map_kernel<Silu, SiluGradient, Reads::kInput>("silu"),
      map_kernel<Tanh, TanhGradient, Reads::kOutput>("tanh"),
      map_kernel<Sigmoid, SigmoidGradient, Reads::kOutput>("sigmoid"),
      map_kernel<Rsqrt, RsqrtGradient, Reads::kOutput>("rsqrt"),
      {"relu", relu_forward,
       [](BackwardRun& run) { map_backward(run, Reads::kOutput, ReluGradient{}); }},
      {"neg", [](ForwardRun& run) { map_forward(run, Negated{}); }, neg_backward},
      {"copy", [](ForwardRun& run) { map_forward(run, Same{}); }, copy_backward},
      {"pow", pow_forward, pow_backward},
      {"scale", scale_forward, scale_backward},
      {"add_scalar", add_scalar_forward, same_backward},
      {"clamp", clamp_forward, clamp_backward},
      {"cast", cast_forward, same_backward},
      {"dropout", dropout_forward, dropout_backward},
  };
}

}  // namespace cairn
