#include "graph/checked.h"
#include "graph/ops/kinds.h"
#include "graph/ops/shapes.h"

namespace cairn {
namespace {

// Rotary position embedding as one fused kernel: inputs are x, cos and sin; it saves only the
// tables, which all layers share. The eager form is spelled out in models/layers/rope_hf.yaml. In
// place it turns x itself, and in Backward the output's gradient.
OpDerivation derive_rope(const OpContext& op) {
  const Tensor& x = *op.inputs[0];
  OpDerivation result{.outputs = {{.data_type = x.data_type, .shape = x.shape}}};
  if (x.requires_grad) result.saved.inputs = {1, 2};
  result.forward = memory_bound_cost();
  result.backward = memory_bound_cost();
  if (op.attributes.in_place) {
    over_first_input(op, result);
    result.gradient_alias_inputs = {0};
    const std::int64_t tables_bytes =
        checked_add(op.inputs[1]->bytes, op.inputs[2]->bytes, "op '{}': bytes it moves", op.name);
    for (Cost* const cost : {&result.forward, &result.backward}) {
      cost->moved_bytes =
          checked_add(product(op, {2, x.bytes}), tables_bytes, "op '{}': bytes it moves", op.name);
    }
  }
  return result;
}

}  // namespace

OpKindInfo rope_kind() {
  return {.name = "rope",
          .source = "liger-kernel 0.8.5 ops/rope.py",
          .min_inputs = 3,
          .max_inputs = 3,
          .attributes = {AttributeKey::kInPlace, AttributeKey::kHeads},
          .derive = derive_rope};
}

}  // namespace cairn
