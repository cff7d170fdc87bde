#pragma once

#include <optional>
#include <string>
#include <vector>

#include "models/family.h"

// What a family asks of its dims, and what it tells the user about them.

namespace cairn {

// The first requirement that these dims do not meet.
struct UnmetRequirement {
  std::string text = {};               // what it asks for, and the values that it found
  std::vector<std::string> dims = {};  // the names in its condition
};
std::optional<UnmetRequirement> unmet_requirement(
    const std::vector<FamilyRequirement>& requirements, const Scope& dims);

// The family's notes whose condition holds.
std::vector<std::string> family_notes(const Family& family, const Scope& dims);

}  // namespace cairn
