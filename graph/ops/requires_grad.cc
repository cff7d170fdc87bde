#include "graph/ops/kinds.h"
#include "graph/ops/shapes.h"

namespace cairn {
namespace {

// tensor.requires_grad_(): the tensor becomes a leaf of autograd's graph. Its AccumulateGrad holds
// it and its gradient for as long as there is a graph: to the end of backward. A checkpoint around
// it runs no second leaf that a gradient would come to.
OpDerivation derive_requires_grad(const OpContext& op) {
  OpDerivation result = whole_view(op, op.inputs[0]->shape);
  result.gradient_alias_inputs.clear();  // what it views has no gradient
  result.saved.outputs = {0};
  result.forward.kernel_count = 0;
  result.backward.kernel_count = 0;
  result.recompute = RecomputePolicy::kNever;
  return result;
}

}  // namespace

OpKindInfo requires_grad_kind() {
  return {.name = "requires_grad",
          .source = "torch/csrc/autograd/functions/accumulate_grad.h: AccumulateGrad",
          .makes_leaf = true,
          .derive = derive_requires_grad,
          .autocast = AutocastList::kNone};
}

}  // namespace cairn
