#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "export/layer_plan.h"

// Pieces of emitted Python.

namespace cairn {

// "range(6)", "range(0, 12, 2)", "[*range(4), 7]", "[3]": of rising numbers.
std::string python_numbers(const std::vector<std::int64_t>& numbers);

// An item for each layer, which names the layer's number {i}: what `item` says for one is said once
// for all that have the same.
struct PythonItems {
  void add(const std::string& list, std::int64_t number, const std::string& item);
  void add(const std::string& item);
  // Lines of a list's inside, indented: "*[f"model.layers.{i}" for i in range(6)],".
  std::string lines() const;
  bool is_empty() const { return groups.empty(); }

  struct Group {
    std::string item = {};
    bool is_for_each = false;
    std::string list = {};
    std::vector<std::int64_t> numbers = {};
  };
  std::vector<Group> groups = {};
};

// "\"model.norm\""; of a path in a layer "f\"model.layers.{i}.mlp\"".
std::string python_path(const std::string& path, const ModelLayer* layer);

// A layer that the path is in, or is; null where there is none, or its path has no number.
const ModelLayer* layer_of_path(const std::vector<ModelLayer>& layers, const std::string& path);

}  // namespace cairn
