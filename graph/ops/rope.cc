#include "graph/ops/kinds.h"
#include "graph/ops/shapes.h"

namespace cairn {
namespace {

// Rotary position embedding as one fused kernel: inputs are x, cos and sin; it saves only the
// tables, which all layers share. The eager form is spelled out in models/layers/rope_hf.yaml.
OpDerivation derive_rope(const OpContext& op) {
  const Tensor& x = *op.inputs[0];
  OpDerivation result{.outputs = {{.data_type = x.data_type, .shape = x.shape}}};
  if (x.requires_grad) result.saved.inputs = {1, 2};
  result.forward = memory_bound_cost();
  result.backward = memory_bound_cost();
  return result;
}

}  // namespace

OpKindInfo rope_kind() {
  return {.name = "rope", .min_inputs = 3, .max_inputs = 3, .derive = derive_rope};
}

}  // namespace cairn
