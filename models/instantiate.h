#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "graph/recipe.h"
#include "models/family.h"
#include "models/per_layer.h"

// The first passes: a family with numbers for its dims becomes a concrete Graph, each op as the
// chosen implementation runs it.

namespace cairn {

struct InstantiateRequest {
  const Family& family;
  const std::map<std::string, Layer>& layers;  // by name; every layer that link_layers() found
  const Scope& dims;                           // values of the family's dims, batch, tokens
  std::vector<PerLayerValues> per_layer = {};
  Recipe recipe = {};
  std::string model_name = {};
};

// Throws InputError for dims that make no sense: an overflow, a width that does not divide.
Graph instantiate(const InstantiateRequest& request);

}  // namespace cairn
