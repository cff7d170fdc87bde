#include <algorithm>
#include <cmath>

#include "models/layer_use.h"
#include "models/place_ops.h"

// Numbers that a layer file sees though the op that it spells out does not state them.

namespace cairn {

// The number of the cap between a head in a loss and that loss: what its layer calls `constant`.
Value OpPlacing::cap_of_head(const Scope& scope) const {
  const FamilyOp* const cap = head_->cap();
  if (cap == nullptr) return integer_value(0);
  if (cap->kind != nullptr) return integer_value(1);
  const Scope inside = composite_scope(request_.layers.at(cap->layer_name), *cap, scope);
  const Value* const constant = find_value(inside, "constant");
  return constant == nullptr ? integer_value(1) : *constant;
}

// Unless it is stated, attention's factor is one over the root of a head's width.
void OpPlacing::add_attention_factor(const FamilyOp& op, const TensorNames& names,
                                     Scope& attributes) const {
  if (op.kind->name != "attention") return;
  const bool is_stated =
      std::any_of(op.attributes.begin(), op.attributes.end(),
                  [](const auto& entry) { return entry.first == AttributeKey::kConstant; });
  const Shape& q = builder_.tensor(names.find(op.inputs[0])).shape;
  const Value* const heads = find_value(attributes, "heads");
  if (is_stated || q.empty() || heads == nullptr || heads->integer < 1) return;
  const auto head_dim = static_cast<double>(q.back()) / static_cast<double>(heads->integer);
  attributes.values["constant"] = number_value(1.0 / std::sqrt(head_dim));
}

}  // namespace cairn
