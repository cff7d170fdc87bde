#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "models/library.h"

// How people write the names of models: which catalogue model a name stands for, and which ones to
// offer where it stands for none. Looks at names only, never at sizes.

namespace cairn {

std::string lower_case(std::string_view text);

// Whether `name` contains `part`, whatever the case of letters; "llama3" is a part of "llama-3-8b".
bool is_part_of_name(std::string_view part, std::string_view name);

// "meta-llama/Meta-Llama-3.1-8B-Instruct" as "llama-3.1-8b": the last part of a path in lower case,
// without what says how the weights were trained (-instruct, -it, -hf, -chat, -base, -2507, also in
// front of a version such as -v0.3) and without meta- in front. It changes no size.
std::string plain_model_name(std::string_view name);

// A catalogue model as names are compared with it.
struct NamedModel {
  const LibraryFile* file = nullptr;
  std::string source = {};  // "" where the file says none
  std::string family = {};
};
std::vector<NamedModel> named_models(const std::vector<LibraryFile>& catalogue);

// The one model whose name, or the name in whose source, is the same when both are plain; nullptr
// where there is none, or more than one.
const NamedModel* find_by_plain_name(const std::vector<NamedModel>& models, std::string_view name);

// What to say behind an unknown name: "; did you mean 'gpt2'?" for a likely slip, "; the catalogue
// has phi-3-mini-4k, phi-3.5-mini" for names that begin like it; else "". A model of another size
// is never said to be meant.
std::string offer_models(const std::vector<NamedModel>& models, std::string_view name);

}  // namespace cairn
