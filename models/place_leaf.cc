#include "models/place_ops.h"

namespace cairn {

// What is made of frozen words requires a gradient from here on (transformers 5.17.0,
// modeling_utils.py: enable_input_require_grads).
void OpPlacing::make_leaf(const FamilyOp& op, TensorNames& names, const Place& place) {
  const std::string& name = op.output_names.empty() ? op.name : op.output_names[0];
  const TensorId made = names.find(name);
  if (builder_.tensor(made).requires_grad) return;
  const OpRequest request{.name = builder_.tensor(made).name + ".requires_grad",
                          .kind = find_op_kind("requires_grad"),
                          .inputs = {made},
                          .module = op.module,
                          .block = place.block};
  names.set(name, builder_.add_op(request).front());
}

}  // namespace cairn
