#pragma once

#include <optional>
#include <string>
#include <vector>

#include "graph/data_type.h"
#include "models/config_index.h"
#include "models/families.h"
#include "models/find_model.h"

// The family of a model, and where the numbers for its dims are.

namespace cairn {

struct ModelNumbers {
  Family family = {};
  std::vector<DimSource> sources = {};        // into the FoundModel's document
  std::optional<std::string> data_type = {};  // the model's own, as written
  std::vector<std::string> notes = {};
};

// Throw InputError with the place in the file.
ModelNumbers numbers_of_model_file(const FoundModel& found, const Folders& folders);

// A config with parts that no family counts is refused by name; with `text_part_only` its
// text_config alone is taken.
ModelNumbers numbers_of_hf_config(const FoundModel& found, const Folders& folders,
                                  bool text_part_only);

// "bfloat16" or "torch.bfloat16", as configs spell a type.
std::optional<DataType> config_data_type(std::string text);

}  // namespace cairn
