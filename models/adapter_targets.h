#pragma once

#include <set>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "graph/recipe.h"
#include "models/family.h"

// Whether a recipe's adapters are beside layers that the model has, and what to say of them.

namespace cairn {

// What became of the recipe's adapters when the model was built.
struct PlacedAdapters {
  const Adapters& adapters;
  const Family& family;
  const std::set<std::string>& linear_modules;  // paths of all linear layers
  const std::set<std::string>& named_patterns;  // targets and trained modules that named something
};

// Throws InputError, with what there is, where there are no targets, where one names no linear
// layer, a trained module is none of the model's, or every layer with an adapter is trained whole.
void check_adapter_targets(const PlacedAdapters& placed, const Graph& graph);

// What the reader has to know of a model with adapters.
std::vector<std::string> adapter_notes(const Graph& graph, const Adapters& adapters);

// In a list of targets: every linear layer but the head, as PEFT has it.
inline constexpr std::string_view kAllLinear = "all-linear";

}  // namespace cairn
