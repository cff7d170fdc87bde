#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "models/family.h"

// Finds and reads families, with the section files they include. All throw InputError for a file
// that is wrong.

namespace cairn {

using Folders = std::vector<std::filesystem::path>;

// The family that the model file `document` names with `name`; throws where there is none.
Family family_named(const Document& document, const Node& name, const Folders& folders);

// The family that reads config.json files of that model_type.
std::optional<Family> family_of_model_type(const std::string& model_type, const Folders& folders);

// How `library` runs models of the family `own`: that itself where `library` is its own or "", else
// the family of that library that stands for it. Throws InputError that names --library and what
// there is.
Family family_in_library(Family own, const std::string& library, const Folders& folders);

// Every model_type that some family reads, sorted.
std::vector<std::string> known_model_types(const Folders& folders);

// The title of every family, by its name; "" where it has none.
std::map<std::string, std::string> family_titles(const Folders& folders);

}  // namespace cairn
