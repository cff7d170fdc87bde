#include "graph/ops/kinds.h"
#include "graph/ops/shapes.h"

// Norms as one fused kernel each: they save their input and fp32 statistics of each row. The norm
// of Hugging Face's eager models is spelled out in smaller ops (models/layers/rms_norm_hf.yaml).
// With gradient_in_place the input's gradient takes the place of the output's.

namespace cairn {
namespace {

std::vector<TensorSketch> rms_norm_parameters(const OpContext& op) {
  return {{.suffix = "weight", .shape = {last_dim(op, *op.inputs[0])}}};
}

std::vector<TensorSketch> layer_norm_parameters(const OpContext& op) {
  std::vector<TensorSketch> parameters = rms_norm_parameters(op);
  if (op.attributes.bias) {
    parameters.push_back({.suffix = "bias", .shape = {last_dim(op, *op.inputs[0])}});
  }
  return parameters;
}

Shape row_shape(const Tensor& tensor) { return with_last_dim(tensor.shape, 1); }

OpDerivation derive_norm(const OpContext& op, std::vector<std::string> statistics) {
  const Tensor& input = *op.inputs[0];
  OpDerivation result{.outputs = {{.data_type = input.data_type, .shape = input.shape}}};
  for (std::string& name : statistics) {
    result.saved.auxiliaries.push_back(result.auxiliaries.size());
    result.auxiliaries.push_back(
        {.suffix = std::move(name), .data_type = DataType::kFloat32, .shape = row_shape(input)});
  }
  result.saved.inputs.push_back(0);
  if (input.requires_grad) result.saved.inputs.push_back(1);
  if (op.attributes.gradient_in_place) result.gradient_alias_inputs = {0};
  result.forward = memory_bound_cost();
  result.backward = memory_bound_cost();
  return result;
}

OpDerivation derive_rms_norm(const OpContext& op) { return derive_norm(op, {"rstd"}); }

// Its Backward is given the bias too, which counts where that is a cast's copy.
OpDerivation derive_layer_norm(const OpContext& op) {
  OpDerivation result = derive_norm(op, {"mean", "rstd"});
  if (op.attributes.bias && op.inputs[0]->requires_grad) result.saved.inputs.push_back(2);
  return result;
}

}  // namespace

OpKindInfo rms_norm_kind() {
  return {.name = "rms_norm",
          .source = "derivatives.yaml: _fused_rms_norm; liger-kernel 0.8.5 ops/rms_norm.py",
          .attributes = {AttributeKey::kGradientInPlace, AttributeKey::kConstant},
          .parameters = rms_norm_parameters,
          .derive = derive_rms_norm,
          .autocast = AutocastList::kFloat32};
}

OpKindInfo layer_norm_kind() {
  return {.name = "layer_norm",
          .source = "derivatives.yaml: native_layer_norm",
          .attributes = {AttributeKey::kBias, AttributeKey::kConstant},
          .parameters = layer_norm_parameters,
          .derive = derive_layer_norm,
          .autocast = AutocastList::kFloat32};
}

}  // namespace cairn
