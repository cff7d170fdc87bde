#pragma once

#include "graph/recipe.h"
#include "models/family.h"
#include "models/tensor_names.h"

// What the ops of a layer see of the op that uses it.

namespace cairn {

// The layer's names for the op's inputs.
TensorNames layer_inputs(const Layer& layer, const FamilyOp& op, const TensorNames& names);

// A composite's attributes, as given or by default, and which block it is used in.
Scope composite_scope(const Layer& layer, const FamilyOp& op, const Scope& scope);

// Adds the values of the attributes of an op's kind, 0 where the op does not state one.
void add_attributes(const FamilyOp& op, const Scope& scope, Scope& attributes);

// What layers of adapters and of quantised weights see of the recipe.
void add_recipe_values(const Recipe& recipe, Scope& attributes);

}  // namespace cairn
