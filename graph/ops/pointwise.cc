#include <fmt/format.h>

#include "graph/ops/kinds.h"
#include "graph/ops/shapes.h"

// Ops on one tensor, element by element. They differ in what autograd saves
// (torch derivatives.yaml): the input, the output, or nothing.

namespace cairn {
namespace {

OpDerivation derive_unary(const OpContext& op, SavedSet saved) {
  const Tensor& input = *op.inputs[0];
  return {.outputs = {{.data_type = input.data_type, .shape = input.shape}},
          .saved = std::move(saved),
          .forward = memory_bound_cost(),
          .backward = memory_bound_cost()};
}

OpDerivation derive_saving_input(const OpContext& op) { return derive_unary(op, {.inputs = {0}}); }

OpDerivation derive_saving_output(const OpContext& op) {
  return derive_unary(op, {.outputs = {0}});
}

OpDerivation derive_saving_nothing(const OpContext& op) { return derive_unary(op, {}); }

DataType asked_type(const OpContext& op) {
  const DataType type = *op.attributes.data_type;
  if (!is_floating(type)) {
    refuse(op, fmt::format("its dtype is {}, which carries no gradient", data_type_name(type)));
  }
  return type;
}

// A copy within another op's kernel, of which autograd knows nothing, hands the gradient on.
OpDerivation derive_copy(const OpContext& op) {
  OpDerivation result = derive_unary(op, {});
  if (op.attributes.gradient_in_place) result.gradient_alias_inputs = {0};
  return result;
}

// The mean or sum over the last dim: saves only sizes.
OpDerivation derive_mean(const OpContext& op) {
  last_dim(op, *op.inputs[0]);  // there has to be one
  OpDerivation result = derive_unary(op, {});
  result.outputs[0].shape = with_last_dim(op.inputs[0]->shape, 1);
  return result;
}

// torch 2.1 wants the number of elements of its input, and saves the whole (its generated
// Functions.h: MeanBackward1).
OpDerivation derive_mean_saving_input(const OpContext& op) {
  OpDerivation result = derive_mean(op);
  result.saved.inputs = {0};
  return result;
}

// A new storage of another type; saves nothing. (A cast to the same type is no op at all: the
// reader of model files leaves it out.)
OpDerivation derive_cast(const OpContext& op) {
  OpDerivation result = derive_unary(op, {});
  result.outputs[0].data_type = asked_type(op);
  return result;
}

// Backward makes two temporaries of its input's size: exponent * x^(exponent - 1).
OpDerivation derive_pow(const OpContext& op) {
  OpDerivation result = derive_saving_input(op);
  result.backward_workspace_bytes = product(op, {2, op.inputs[0]->bytes});
  return result;
}

// x + constant, or a mask of type `dtype`: the gradient passes by alias where the type stays.
OpDerivation derive_add_scalar(const OpContext& op) {
  OpDerivation result = derive_unary(op, {});
  DataType& type = result.outputs[0].data_type;
  if (op.attributes.data_type) type = promoted_type(type, asked_type(op));
  if (type == op.inputs[0]->data_type) result.gradient_alias_inputs = {0};
  return result;
}

// Keeps one byte an element (the mask) and replays the same numbers when recomputed.
OpDerivation derive_dropout(const OpContext& op) {
  OpDerivation result = derive_unary(op, {.auxiliaries = {0}});
  result.auxiliaries = {
      {.suffix = "mask", .data_type = DataType::kBool, .shape = op.inputs[0]->shape}};
  result.recompute = RecomputePolicy::kReplayRandom;
  return result;
}

// Softmax saves its output; with `dtype` one kernel makes fp32 of fp16, and of other types it is
// the softmax of a cast, which the builder adds.
OpDerivation derive_softmax(const OpContext& op) {
  OpDerivation result = derive_unary(op, {.outputs = {0}});
  if (op.attributes.data_type) result.outputs[0].data_type = asked_type(op);
  return result;
}

// Saves its output (torch derivatives.yaml: relu, by result). In place it overwrites its input,
// which then nothing may save.
OpDerivation derive_relu(const OpContext& op) {
  OpDerivation result = derive_saving_output(op);
  if (op.attributes.in_place) over_first_input(op, result);
  return result;
}

// Where row i may see columns 0 to i, x, elsewhere a constant (torch.where): saves the flags, one
// byte for each row and column.
OpDerivation derive_mask_causal(const OpContext& op) {
  const Shape& shape = op.inputs[0]->shape;
  if (shape.size() < 2) {
    refuse(op, fmt::format("'{}' must be [..., rows, columns], found {}", op.inputs[0]->name,
                           shape_text(shape)));
  }
  OpDerivation result = derive_unary(op, {.auxiliaries = {0}});
  result.auxiliaries = {{.suffix = "flags",
                         .data_type = DataType::kBool,
                         .shape = {shape[shape.size() - 2], shape.back()}}};
  return result;
}

OpKindInfo unary(std::string_view name, std::string_view source,
                 OpDerivation (*derive)(const OpContext&),
                 AutocastList autocast = AutocastList::kNone,
                 std::vector<AttributeKey> attributes = {}) {
  return {.name = name,
          .source = source,
          .attributes = std::move(attributes),
          .derive = derive,
          .autocast = autocast};
}

}  // namespace

OpKindInfo gelu_kind() {
  return unary("gelu", "derivatives.yaml: gelu", derive_saving_input, AutocastList::kNone,
               {AttributeKey::kTanhForm});
}
OpKindInfo silu_kind() { return unary("silu", "derivatives.yaml: silu", derive_saving_input); }
OpKindInfo relu_kind() {
  return {.name = "relu",
          .source = "derivatives.yaml: relu",
          .attributes = {AttributeKey::kInPlace},
          .derive = derive_relu,
          .autocast = AutocastList::kNone};
}

OpKindInfo tanh_kind() { return unary("tanh", "derivatives.yaml: tanh", derive_saving_output); }
OpKindInfo sigmoid_kind() {
  return unary("sigmoid", "derivatives.yaml: sigmoid", derive_saving_output);
}
OpKindInfo clamp_kind() {
  return unary("clamp", "derivatives.yaml: clamp", derive_saving_input, AutocastList::kNone,
               {AttributeKey::kConstant, AttributeKey::kOneSided});
}
OpKindInfo rsqrt_kind() {
  return unary("rsqrt", "derivatives.yaml: rsqrt", derive_saving_output, AutocastList::kFloat32);
}
OpKindInfo mask_causal_kind() {
  return unary("mask_causal", "derivatives.yaml: where", derive_mask_causal, AutocastList::kNone,
               {AttributeKey::kConstant});
}
OpKindInfo neg_kind() { return unary("neg", "derivatives.yaml: neg", derive_saving_nothing); }
OpKindInfo scale_kind() {
  return unary("scale", "derivatives.yaml: mul", derive_saving_nothing, AutocastList::kNone,
               {AttributeKey::kConstant});
}
OpKindInfo copy_kind() {
  return {.name = "copy",
          .source = "derivatives.yaml: clone",
          .attributes = {AttributeKey::kGradientInPlace},
          .derive = derive_copy,
          .autocast = AutocastList::kNone};
}
OpKindInfo mean_kind() { return unary("mean", "derivatives.yaml: mean", derive_mean); }
OpKindInfo mean_saving_input_kind() {
  return unary("mean_saving_input", "torch 2.1 derivatives.yaml: mean", derive_mean_saving_input);
}
OpKindInfo sum_kind() {
  return unary("sum", "derivatives.yaml: sum", derive_mean, AutocastList::kNotKnown);
}
OpKindInfo log_softmax_kind() {
  return {.name = "log_softmax",
          .source = "derivatives.yaml: _log_softmax",
          .attributes = {AttributeKey::kDataType},
          .derive = derive_softmax,
          .autocast = AutocastList::kFloat32Output};
}

OpKindInfo pow_kind() {
  return unary("pow", "derivatives.yaml: pow", derive_pow, AutocastList::kFloat32,
               {AttributeKey::kConstant});
}

OpKindInfo add_scalar_kind() {
  return {.name = "add_scalar",
          .source = "derivatives.yaml: add",
          .attributes = {AttributeKey::kDataType, AttributeKey::kConstant, AttributeKey::kCausal,
                         AttributeKey::kWindow},
          .derive = derive_add_scalar,
          .autocast = AutocastList::kNone};
}

OpKindInfo cast_kind() {
  return {.name = "cast",
          .source = "derivatives.yaml: _to_copy",
          .attributes = {AttributeKey::kDataType},
          .required = {AttributeKey::kDataType},
          .derive = derive_cast,
          .autocast = AutocastList::kNone};
}

OpKindInfo dropout_kind() {
  return {.name = "dropout",
          .source = "derivatives.yaml: native_dropout",
          .attributes = {AttributeKey::kProbability},
          .is_dropout = true,
          .derive = derive_dropout,
          .autocast = AutocastList::kNone};
}

OpKindInfo softmax_kind() {
  return {.name = "softmax",
          .source = "derivatives.yaml: _softmax",
          .attributes = {AttributeKey::kDataType, AttributeKey::kCausal},
          .derive = derive_softmax,
          .autocast = AutocastList::kFloat32Output};
}

}  // namespace cairn
