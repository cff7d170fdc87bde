#pragma once

#include <cstddef>
#include <functional>
#include <string_view>
#include <unordered_set>

#include "graph/graph.h"

// Finds a graph's ops or tensors by name. It holds ids alone: the names stay where they are.

namespace cairn {

inline std::string_view name_of(const Graph& graph, OpId id) { return graph.op(id).name; }
inline std::string_view name_of(const Graph& graph, TensorId id) { return graph.tensor(id).name; }

template <typename Id>
struct NameHash {
  using is_transparent = void;  // NOLINT(readability-identifier-naming): the library's name
  const Graph* graph = nullptr;
  std::size_t operator()(std::string_view name) const {
    return std::hash<std::string_view>()(name);
  }
  std::size_t operator()(Id id) const { return (*this)(name_of(*graph, id)); }
};

template <typename Id>
struct NameEqual {
  using is_transparent = void;  // NOLINT(readability-identifier-naming): the library's name
  const Graph* graph = nullptr;
  bool operator()(Id a, Id b) const { return name_of(*graph, a) == name_of(*graph, b); }
  bool operator()(std::string_view a, Id b) const { return a == name_of(*graph, b); }
  bool operator()(Id a, std::string_view b) const { return name_of(*graph, a) == b; }
};

template <typename Id>
using NameIndex = std::unordered_set<Id, NameHash<Id>, NameEqual<Id>>;

template <typename Id>
NameIndex<Id> name_index(const Graph& graph) {
  return NameIndex<Id>(0, NameHash<Id>{.graph = &graph}, NameEqual<Id>{.graph = &graph});
}

}  // namespace cairn
