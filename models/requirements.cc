#include "models/requirements.h"

#include <fmt/format.h>

#include "models/family_values.h"

namespace cairn {

std::optional<UnmetRequirement> unmet_requirement(
    const std::vector<FamilyRequirement>& requirements, const Scope& dims) {
  for (const FamilyRequirement& requirement : requirements) {
    if (holds(requirement.condition, dims)) continue;
    const std::vector<std::string>& names = requirement.condition.expression.names;
    std::string values;
    for (const std::string& name : names) {
      const Value* value = find_value(dims, name);
      if (value == nullptr) continue;
      values += fmt::format("{}{} = {}", values.empty() ? "" : ", ", name, spell(*value));
    }
    return UnmetRequirement{.text = fmt::format("{} ({})", requirement.otherwise, values),
                            .dims = names};
  }
  return std::nullopt;
}

std::vector<std::string> family_notes(const Family& family, const Scope& dims) {
  std::vector<std::string> notes;
  for (const FamilyNote& note : family.notes) {
    if (holds(note.condition, dims)) notes.push_back(note.text);
  }
  return notes;
}

}  // namespace cairn
