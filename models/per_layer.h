#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "models/config_index.h"
#include "models/dims.h"
#include "models/family.h"

// Dims with a value for each block of a repeat: the kind of attention of every layer, and the like.

namespace cairn {

struct PerLayerValues {
  const PerLayerDim* dim = nullptr;
  FoundValue found = {};           // the list; without a node, the default holds
  std::vector<Value> values = {};  // its items
};

// Throws InputError for a value that is no list of scalars, or is not allowed.
std::vector<PerLayerValues> resolve_per_layer(const Family& family,
                                              const std::vector<DimSource>& sources);

// What gives the values: the key of the list, or the default's expression.
DimOrigin origin_of(const PerLayerValues& values);
std::string origin_text_of(const PerLayerValues& values);

// The value in one block; `scope` knows `block`. Throws InputError where the list is too short.
Value value_in_block(const PerLayerValues& values, std::int64_t block, const Scope& scope);

}  // namespace cairn
