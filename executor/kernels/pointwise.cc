#include <limits>

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

double constant(const Op& op) { return *op.attributes.constant; }

void pow_forward(ForwardRun& run) { map_forward(run, Power{constant(run.op)}); }

// PyTorch makes exponent * x^(exponent - 1) in two steps before it is multiplied by the gradient.
void pow_backward(BackwardRun& run) {
  const Array& x = run.inputs[0];
  const double exponent = constant(run.op);
  run.workspaces = {run.memory.make(x.type, x.shape), run.memory.make(x.type, x.shape)};
  apply(run.memory, run.workspaces[0], x, Power{exponent - 1.0});
  apply(run.memory, run.workspaces[1], run.workspaces[0], Affine{exponent, 0.0});
  Array out = run.memory.make(x.type, x.shape);
  apply(run.memory, out, run.output_gradients[0], run.workspaces[1], Product{});
  run.gradients[0] = {.array = std::move(out)};
}

void scale_forward(ForwardRun& run) { map_forward(run, Affine{constant(run.op), 0.0}); }

void scale_backward(BackwardRun& run) {
  Array out = run.memory.make(run.inputs[0].type, run.inputs[0].shape);
  apply(run.memory, out, run.output_gradients[0], Affine{constant(run.op), 0.0});
  run.gradients[0] = {.array = std::move(out)};
}

// What a causal mask adds to a score that is not seen: the lowest number of bf16.
constexpr double kHidden = -3.3895313892515355e38;

// A constant, or a causal mask of the last two dims.
void add_scalar_forward(ForwardRun& run) {
  const Array& x = run.inputs[0];
  const OpAttributes& attributes = run.op.attributes;
  const DataType wide = attributes.data_type.value_or(x.type);
  run.outputs = {run.memory.make(promoted_type(x.type, wide), x.shape)};
  const Array& out = run.outputs[0];
  if (!attributes.causal) return apply(run.memory, out, x, Affine{1.0, constant(run.op)});
  with_real(out.type, [&](auto real) {
    launch(run.memory.device(), element_count(out),
           AddMask<decltype(real)>{elements(out), elements(x), x.shape[x.shape.size() - 2],
                                   last_dim(x), attributes.window, true, kHidden});
  });
}

std::string refuse_without_term(const Graph& graph, const Op& op) {
  if (!op.attributes.causal) return refuse_without_constant(graph, op);
  const bool is_matrix = graph.tensor(op.inputs[0]).shape.size() > 1;
  return is_matrix ? "" : "a causal mask of fewer than two dims";
}

double lower_limit(const Op& op) {
  return op.attributes.one_sided ? -std::numeric_limits<double>::infinity() : -constant(op);
}

void clamp_forward(ForwardRun& run) {
  map_forward(run, Clamp{lower_limit(run.op), constant(run.op)});
}

void clamp_backward(BackwardRun& run) {
  map_backward(run, Reads::kInput, ClampGradient{lower_limit(run.op), constant(run.op)});
}

void gelu_forward(ForwardRun& run) {
  if (run.op.attributes.tanh_form) return map_forward(run, GeluTanh{});
  map_forward(run, Gelu{});
}

void gelu_backward(BackwardRun& run) {
  if (run.op.attributes.tanh_form) return map_backward(run, Reads::kInput, GeluTanhGradient{});
  map_backward(run, Reads::kInput, GeluGradient{});
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
      {"gelu", gelu_forward, gelu_backward},
      map_kernel<Silu, SiluGradient, Reads::kInput>("silu"),
      map_kernel<Tanh, TanhGradient, Reads::kOutput>("tanh"),
      map_kernel<Sigmoid, SigmoidGradient, Reads::kOutput>("sigmoid"),
      map_kernel<Rsqrt, RsqrtGradient, Reads::kOutput>("rsqrt"),
      {"relu", relu_forward,
       [](BackwardRun& run) { map_backward(run, Reads::kOutput, ReluGradient{}); }},
      {"neg", [](ForwardRun& run) { map_forward(run, Negated{}); }, neg_backward},
      {"copy", [](ForwardRun& run) { map_forward(run, Same{}); }, copy_backward},
      {"pow", pow_forward, pow_backward, refuse_without_constant},
      {"scale", scale_forward, scale_backward, refuse_without_constant},
      {"add_scalar", add_scalar_forward, same_backward, refuse_without_term},
      {"clamp", clamp_forward, clamp_backward, refuse_without_constant},
      {"cast", cast_forward, same_backward},
      {"dropout", dropout_forward, dropout_backward},
  };
}

}  // namespace cairn
