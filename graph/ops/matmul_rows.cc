#include <utility>

#include "graph/ops/kinds.h"
#include "graph/ops/shapes.h"

namespace cairn {
namespace {

// What a batched matrix product makes of q, k or v whose heads lie beside others in one tensor:
// rows of their own where there are several samples, and a view where there is one (aten
// LinearAlgebra.cpp, matmul: expand, then reshape, which copies where samples and heads do not fold
// into one dim).
OpDerivation derive_matmul_rows(const OpContext& op) {
  const Tensor& input = *op.inputs[0];
  last_dim(op, input);  // there has to be one
  TensorSketch output{.data_type = input.data_type, .shape = input.shape};
  // Backward views the gradient of the rows as the heads' (derivatives.yaml: clone, view, expand).
  OpDerivation result{.gradient_alias_inputs = {0}};
  if (input.shape[0] == 1) {
    output.view_of_input = 0;
  } else {
    result.forward = memory_bound_cost();
  }
  result.outputs = {std::move(output)};
  return result;
}

}  // namespace

OpKindInfo matmul_rows_kind() {
  return {.name = "matmul_rows",
          .source = "derivatives.yaml: expand, clone, view",
          .derive = derive_matmul_rows,
          .autocast = AutocastList::kNone};
}

}  // namespace cairn
