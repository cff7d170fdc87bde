#pragma once

#include <optional>
#include <string>
#include <vector>

#include "models/config_index.h"
#include "models/family.h"

// Numbers for a family's dims: from a config.json or model file, with what the user sets on top.

namespace cairn {

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

enum class DimOrigin { kFile, kOption, kDefault, kDerived };

struct ResolvedDim {
  std::string name = {};
  DimType type = DimType::kSize;
  Value value = {};
  DimOrigin origin = DimOrigin::kFile;
  std::string origin_text = {};  // the key, the option, or the default's expression
};

// The value of every dim, in the family's order. Throws InputError at the key that is missing, of
// the wrong type, or not positive; and for an override of an unknown dim.
std::vector<ResolvedDim> resolve_dims(const Family& family, const std::vector<DimSource>& sources,
                                      const std::vector<DimOverride>& overrides);

}  // namespace cairn
