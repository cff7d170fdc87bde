#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "models/family.h"

// Numbers for a family's dims: from a config.json or model file, with what the user sets on top.

namespace cairn {

// A mapping to look values up in. Several are searched in order (config.json, its text_config).
struct DimSource {
  const Document* document = nullptr;
  const Node* mapping = nullptr;
  bool by_dim_name = false;  // keys are the family's dim names (model files), not config keys
};

struct DimOverride {
  std::string name = {};
  std::string value = {};   // as typed: 4096, 248k, true, 0.1, silu
  std::string option = {};  // "--set hidden" or "--vocab", for messages
};

// Where the sources give the last of these dims that they give at all, to point at a fault.
struct DimPlace {
  const Document* document = nullptr;
  Position position = {};
};
std::optional<DimPlace> place_of_dims(const Family& family, const std::vector<DimSource>& sources,
                                      const std::vector<std::string>& names);

// The value of every dim, in the family's order. Throws InputError at the key that is missing, of
// the wrong type, or not positive; and for an override of an unknown dim.
std::vector<std::pair<std::string, Value>> resolve_dims(const Family& family,
                                                        const std::vector<DimSource>& sources,
                                                        const std::vector<DimOverride>& overrides);

}  // namespace cairn
