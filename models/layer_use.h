#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "graph/recipe.h"
#include "models/family.h"
#include "models/tensor_names.h"

// What the ops of a layer see of the op that uses it.

namespace cairn {

// "out" has to name every tensor that the op makes.
void check_output_names(const FamilyOp& op, std::size_t output_count);
// Throws InputError for an op that the layer cannot stand for.
void check_layer_use(const Layer& layer, const FamilyOp& op);

// The layer's names for the op's inputs.
TensorNames layer_inputs(const Layer& layer, const FamilyOp& op, const TensorNames& names);

// A composite's attributes, as given or by default, and which block it is used in.
Scope composite_scope(const Layer& layer, const FamilyOp& op, const Scope& scope);

// Adds the values of the attributes of an op's kind, 0 where the op does not state one.
void add_attributes(const FamilyOp& op, const Scope& scope, Scope& attributes);

// What layers of adapters and of quantised weights see of the recipe.
void add_recipe_values(const Recipe& recipe, Scope& attributes);
bool is_recipe_value(std::string_view name);

// Throws InputError where the parts of a linear layer that is several in one are not as wide.
void check_fused_parts(const FamilyOp& op, const Scope& scope);

// What an adapter's layer sees of them, by name: the width of those that have one, 0 of the others.
void add_fused_parts(const FamilyOp& op, const Scope& scope,
                     const std::vector<std::string>& adapted, Scope& attributes);

}  // namespace cairn
