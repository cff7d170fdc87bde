#include <fmt/format.h>

#include <algorithm>

#include "graph/checked.h"
#include "graph/ops/kinds.h"
#include "graph/ops/shapes.h"

// Ops on two tensors, element by element; the smaller is broadcast.

namespace cairn {
namespace {

// Whether every dim of `small`, aligned at the last, is that of `large` or 1.
bool broadcasts_into(const Shape& small, const Shape& large) {
  if (small.size() > large.size()) return false;
  const std::size_t missing = large.size() - small.size();
  for (std::size_t i = 0; i < small.size(); ++i) {
    if (small[i] != 1 && small[i] != large[missing + i]) return false;
  }
  return true;
}

// The operand whose shape the output has.
const Tensor& larger_operand(const OpContext& op, const Tensor& a, const Tensor& b) {
  if (broadcasts_into(b.shape, a.shape)) return a;
  if (broadcasts_into(a.shape, b.shape)) return b;
  refuse(op,
         fmt::format("{} and {} do not fit together", shape_text(a.shape), shape_text(b.shape)));
}

TensorSketch binary_output(const OpContext& op, const Tensor& a, const Tensor& b) {
  return {.data_type = promoted_type(a.data_type, b.data_type),
          .shape = larger_operand(op, a, b).shape};
}

// Saves nothing; both gradients are the output's gradient (measured in PyTorch), or a cast of it
// for an operand of another type. In place the type is the first one's.
OpDerivation derive_add(const OpContext& op) {
  const Tensor& a = *op.inputs[0];
  const Tensor& b = *op.inputs[1];
  OpDerivation result{.outputs = {binary_output(op, a, b)},
                      .forward = memory_bound_cost(),
                      .backward = memory_bound_cost()};
  if (op.attributes.in_place) result.outputs[0].data_type = a.data_type;
  for (const std::size_t i : {std::size_t{0}, std::size_t{1}}) {
    const Tensor& input = *op.inputs[i];
    if (input.shape == result.outputs[0].shape && input.data_type == result.outputs[0].data_type) {
      result.gradient_alias_inputs.push_back(i);
    }
  }
  if (op.attributes.in_place) {
    if (result.outputs[0].shape != a.shape) {
      refuse(op, fmt::format("{} does not fit over {}", shape_text(b.shape), shape_text(a.shape)));
    }
    over_first_input(op, result);
  }
  return result;
}

// a - b: b's gradient is a new tensor, the negated one, which is summed where b is broadcast.
OpDerivation derive_sub(const OpContext& op) {
  OpDerivation result = derive_add(op);
  const TensorSketch& output = result.outputs[0];
  if (op.inputs[1]->requires_grad && op.inputs[1]->shape != output.shape) {
    result.backward_workspace_bytes =
        product(op, {element_count(output.shape, op.name), bytes_per_element(output.data_type)});
  }
  std::vector<std::size_t>& aliases = result.gradient_alias_inputs;
  aliases.erase(std::remove(aliases.begin(), aliases.end(), std::size_t{1}), aliases.end());
  return result;
}

// Saves an operand only if the other needs a gradient.
SavedSet product_saved(const Tensor& a, const Tensor& b) {
  SavedSet saved;
  if (b.requires_grad) saved.inputs.push_back(0);
  if (a.requires_grad) saved.inputs.push_back(1);
  return saved;
}

// The gradient of a broadcast operand is first made at the output's size, then summed; that of an
// operand of a narrower type is first made in the output's type, then cast.
OpDerivation derive_product(const OpContext& op, const Tensor& a, const Tensor& b) {
  OpDerivation result{.outputs = {binary_output(op, a, b)},
                      .saved = product_saved(a, b),
                      .forward = memory_bound_cost(),
                      .backward = memory_bound_cost()};
  const TensorSketch& output = result.outputs[0];
  for (const Tensor* operand : {&a, &b}) {
    const bool is_alike = operand->shape == output.shape && operand->data_type == output.data_type;
    if (!operand->requires_grad || is_alike) continue;
    result.backward_workspace_bytes = checked_add(
        result.backward_workspace_bytes,
        product(op, {element_count(output.shape, op.name), bytes_per_element(output.data_type)}),
        "op '{}'", op.name);
  }
  return result;
}

OpDerivation derive_mul(const OpContext& op) {
  return derive_product(op, *op.inputs[0], *op.inputs[1]);
}

// a / b saves b for both gradients and a for b's (derivatives.yaml: div). Dividing in place, as in
// x /= sum, saves a copy of x instead: the same bytes.
OpDerivation derive_div(const OpContext& op) {
  const Tensor& a = *op.inputs[0];
  const Tensor& b = *op.inputs[1];
  OpDerivation result = derive_product(op, a, b);
  result.saved = {};
  if (b.requires_grad) result.saved.inputs.push_back(0);
  if (a.requires_grad || b.requires_grad) result.saved.inputs.push_back(1);
  return result;
}

// x by a table of one head's width, the same for every head (cos, sin). The table has no gradient,
// and is all that is saved.
OpDerivation derive_mul_table(const OpContext& op) {
  const Tensor& x = *op.inputs[0];
  const Tensor& table = *op.inputs[1];
  if (last_dim(op, x) % last_dim(op, table) != 0 ||
      !broadcasts_into(with_last_dim(table.shape, 1), x.shape)) {
    refuse(op,
           fmt::format("a table {} does not fit {}", shape_text(table.shape), shape_text(x.shape)));
  }
  if (table.requires_grad) refuse(op, fmt::format("the table '{}' has a gradient", table.name));
  const DataType type = promoted_type(x.data_type, table.data_type);
  OpDerivation result{.outputs = {{.data_type = type, .shape = x.shape}},
                      .forward = memory_bound_cost(),
                      .backward = memory_bound_cost()};
  if (x.requires_grad) result.saved.inputs = {1};
  if (x.requires_grad && type != x.data_type) {  // its gradient is made in the wider type first
    result.backward_workspace_bytes =
        product(op, {element_count(x.shape, x.name), bytes_per_element(type)});
  }
  return result;
}

std::vector<TensorSketch> mul_weight_parameters(const OpContext& op) {
  return {{.suffix = "weight", .shape = {last_dim(op, *op.inputs[0])}}};
}

OpDerivation derive_mul_weight(const OpContext& op) {
  return derive_product(op, *op.inputs[0], *op.parameters[0]);
}

// x * (1 + w) in x's type, as Gemma's norm has it: the sum is a tensor of its own, which is saved
// for x's gradient. The weight's gradient is first made at x's size, then summed.
OpDerivation derive_mul_one_plus_weight(const OpContext& op) {
  const Tensor& x = *op.inputs[0];
  const Tensor& weight = *op.parameters[0];
  OpDerivation result{
      .outputs = {{.data_type = x.data_type, .shape = x.shape}},
      .auxiliaries = {{.suffix = "sum", .data_type = x.data_type, .shape = weight.shape}},
      .forward = {.kernel_count = 2},
      .backward = memory_bound_cost()};
  if (weight.requires_grad) {
    result.saved.inputs.push_back(0);
    result.backward_workspace_bytes = x.bytes;
  }
  if (x.requires_grad) result.saved.auxiliaries.push_back(0);
  return result;
}

// Gated activations as one kernel: gate and up are saved, nothing between. One input holds both
// halves. With gradient_in_place their gradients are written over them.
OpDerivation derive_gated(const OpContext& op) {
  const Tensor& gate = *op.inputs[0];
  OpDerivation result{.outputs = {{.data_type = gate.data_type, .shape = gate.shape}},
                      .saved = {.inputs = {0}},
                      .forward = memory_bound_cost(),
                      .backward = memory_bound_cost()};
  if (op.inputs.size() == 1) {
    if (last_dim(op, gate) % 2 != 0) refuse(op, "its one input must hold gate and up, halves");
    result.outputs[0].shape.back() /= 2;
    return result;
  }
  if (gate.shape != op.inputs[1]->shape) refuse(op, "gate and up must have one shape");
  result.saved.inputs.push_back(1);
  if (op.attributes.gradient_in_place) {
    result.gradient_places = {{.input = 0}, {.input = 1}};
  }
  return result;
}

}  // namespace

OpKindInfo add_kind() {
  return {.name = "add",
          .source = "derivatives.yaml: add",
          .min_inputs = 2,
          .max_inputs = 2,
          .attributes = {AttributeKey::kInPlace},
          .derive = derive_add,
          .autocast = AutocastList::kNone};
}

OpKindInfo sub_kind() {
  return {.name = "sub",
          .source = "derivatives.yaml: sub",
          .min_inputs = 2,
          .max_inputs = 2,
          .derive = derive_sub,
          .autocast = AutocastList::kNone};
}

OpKindInfo div_kind() {
  return {.name = "div",
          .source = "derivatives.yaml: div",
          .min_inputs = 2,
          .max_inputs = 2,
          .derive = derive_div,
          .autocast = AutocastList::kNone};
}

OpKindInfo mul_kind() {
  return {.name = "mul",
          .source = "derivatives.yaml: mul",
          .min_inputs = 2,
          .max_inputs = 2,
          .derive = derive_mul,
          .autocast = AutocastList::kNone};
}

OpKindInfo mul_table_kind() {
  return {.name = "mul_table",
          .source = "derivatives.yaml: mul",
          .min_inputs = 2,
          .max_inputs = 2,
          .attributes = {AttributeKey::kPairs},
          .derive = derive_mul_table,
          .autocast = AutocastList::kNone};
}

OpKindInfo mul_weight_kind() {
  return {.name = "mul_weight",
          .source = "derivatives.yaml: mul",
          .attributes = {AttributeKey::kDataType},
          .parameters = mul_weight_parameters,
          .derive = derive_mul_weight,
          .autocast = AutocastList::kNone,
          .casts_parameters = true};
}

OpKindInfo mul_one_plus_weight_kind() {
  return {.name = "mul_one_plus_weight",
          .source = "derivatives.yaml: add, mul",
          .parameters = mul_weight_parameters,
          .derive = derive_mul_one_plus_weight,
          .autocast = AutocastList::kNone};
}

OpKindInfo swiglu_kind() {
  return {.name = "swiglu",
          .source = "liger-kernel 0.8.5 ops/swiglu.py; Megatron-LM fused_bias_swiglu.py",
          .min_inputs = 1,
          .max_inputs = 2,
          .attributes = {AttributeKey::kGradientInPlace},
          .derive = derive_gated};
}

OpKindInfo geglu_kind() {
  return {.name = "geglu",
          .source = "liger-kernel 0.8.5 ops/geglu.py; Megatron-LM fused_bias_geglu.py",
          .min_inputs = 1,
          .max_inputs = 2,
          .attributes = {AttributeKey::kGradientInPlace},
          .derive = derive_gated};
}

}  // namespace cairn
