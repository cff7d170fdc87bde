#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "graph/optimizer_rule.h"
#include "graph/recipe.h"
#include "graph/training_step.h"

namespace cairn {

// What the recipe's optimizer keeps and makes for each parameter when it loops so. Throws
// InputError for an unknown name, a loop it does not have, or master weights where it has none.
OptimizerRule optimizer_rule(const Recipe& recipe);

// Of a graph in which parameters have bytes but no shapes. Throws InputError also where the
// optimizer needs these.
OptimizerRule optimizer_rule_without_shapes(const Recipe& recipe);

// The name as this program writes it: adamw-8bit for adamw_8bit, and for adamw_bnb_8bit, which
// Transformers' Trainer has for it. Any other text comes back with '-' for '_'.
std::string optimizer_name(std::string_view text);

// Throws InputError for an unknown name.
OptimizerLoop parse_optimizer_loop(std::string_view text);

// Can its states have another type than it gives them itself (Recipe::optimizer_state_type)?
bool takes_state_type(std::string_view optimizer);

std::vector<std::string> optimizer_names();
std::vector<std::string> optimizer_loop_names();

}  // namespace cairn
