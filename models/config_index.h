#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "models/document.h"

// Where a model's numbers are, and what stands there under a key.

namespace cairn {

// A mapping that gives values: of a config.json by its own keys, of a model file by dims' names.
struct DimSource {
  const Document* document = nullptr;
  const Node* mapping = nullptr;
  bool by_dim_name = false;
};

struct FoundValue {
  const DimSource* source = nullptr;
  const Node* node = nullptr;   // null: nothing found
  std::string key = {};         // as it was found: "depths[0]"
  bool counts_entries = false;  // the value is how many entries or items it has: "id2label[]"
};

// The entries of some sources by key, but for nulls. The sources must outlive it.
class ConfigIndex {
 public:
  explicit ConfigIndex(const std::vector<DimSource>& sources);

  // The first of a dim's keys that some source has, the first source before the second. A key may
  // be a path: "rope_parameters.partial_rotary_factor", "depths[0]", "id2label[]". Throws
  // InputError where the path meets something that is no mapping or list.
  FoundValue find(const std::string& dim_name, const std::vector<std::string>& config_keys) const;

  // Whether one of a dim's keys is there, at the top of some source, with no value.
  bool is_null(const std::string& dim_name, const std::vector<std::string>& config_keys) const;

  // Throws the InputError for a dim that nothing gives; `advice` ends it.
  [[noreturn]] void fail_missing(const std::string& dim_name,
                                 const std::vector<std::string>& config_keys,
                                 const std::string& family_name, const std::string& advice) const;

 private:
  const std::vector<DimSource>& sources_;
  std::vector<std::unordered_map<std::string_view, const Node*>> values_ = {};
};

}  // namespace cairn
