#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "graph/graph.h"

// One op of every kind that has a kernel, and more of those that have attributes.

namespace cairn {

struct KernelCase {
  std::string kind = {};
  OpAttributes attributes = {};
  std::vector<Shape> shapes = {};
  std::int64_t integers_below = 0;  // of inputs that are ids or labels
  bool is_positive = false;         // inputs are above zero
  std::map<std::size_t, std::vector<std::int64_t>> integers = {};  // of an input, where it matters
  std::set<std::size_t> flags = {};                                // inputs that are booleans
  std::set<std::size_t> frozen = {};                               // without a gradient
  bool writes_over_inputs = false;
  DataType type = DataType::kFloat32;  // in the graph; all is computed in float64
};

std::vector<KernelCase> all_cases();

}  // namespace cairn
