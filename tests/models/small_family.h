#pragma once

#include <map>
#include <string>

#include "graph/graph.h"
#include "graph/recipe.h"
#include "models/family.h"

// Small families, written out in a test, as graphs.

namespace cairn::test {

// The head that the families begin with: a name, and the inputs x and labels.
extern const char* const kFamilyHead;

// Batch 2, tokens 4.
Scope small_dims();

// Of kFamilyHead and `rest`. Throws InputError.
Graph graph_of(const std::string& rest, const std::map<std::string, Layer>& layers = {},
               Recipe recipe = {});

// What graph_of says against it, or "accepted".
std::string refusal(const std::string& rest, const std::map<std::string, Layer>& layers = {},
                    const Recipe& recipe = {});

// "a:linear b:gelu".
std::string ops_text(const Graph& graph);

Layer layer_of(const std::string& text);

}  // namespace cairn::test
