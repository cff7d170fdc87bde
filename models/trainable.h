#pragma once

#include <string>
#include <string_view>
#include <unordered_set>

#include "graph/graph.h"
#include "graph/recipe.h"

// Which parameters the patterns of --freeze and --train-only name. A pattern may have `*` (any
// characters, dots too) and `?` (one), and names
//
//   a parameter              model.layers.0.mlp.up_proj.weight, *.bias
//   a module, with all in it model.layers.0, *.embed_tokens, lm_head
//
// by the trainer's path, or by the op that has it (layers.0.mlp.up.weight). A shared parameter goes
// by the names of all ops that have it.

namespace cairn {

// Whether the whole text fits the pattern.
bool fits_pattern(std::string_view pattern, std::string_view text);

// Whether it names this, or a module around it: of "a.b.c" also "a.b" and "a".
bool names_any_part(std::string_view pattern, std::string_view name);

// Names of the parameters that are not trained. Throws InputError for a pattern that names nothing,
// and where nothing is left to train.
std::unordered_set<std::string> frozen_parameters(const Graph& graph, const Recipe& recipe);

}  // namespace cairn
