#pragma once

#include <string_view>
#include <utility>
#include <vector>

#include "graph/ids.h"

// What the names of family and layer files stand for while a graph is built from them. The texts
// are those of the files; a table is short.

namespace cairn {

// Names in scope and the tensors they stand for; an inner table hides the outer, and a later entry
// one before it.
class TensorNames {
 public:
  explicit TensorNames(const TensorNames* outer = nullptr) : outer_(outer) {}

  void set(std::string_view name, TensorId tensor) { entries_.emplace_back(name, tensor); }

  // kNoTensor where there is none of that name.
  TensorId find(std::string_view name) const;

  // A name that stands for several tensors, until an inner table gives it one.
  void set_list(std::string_view name, std::vector<TensorId> tensors);
  // nullptr where the name is none of a list.
  const std::vector<TensorId>* find_list(std::string_view name) const;

 private:
  const TensorNames* outer_ = nullptr;
  std::vector<std::pair<std::string_view, TensorId>> entries_ = {};
  std::vector<std::pair<std::string_view, std::vector<TensorId>>> lists_ = {};
};

// Tensors that names of one list of ops hold (rule 1a), and until which op of it: a scope.
class HeldNames {
 public:
  void hold(TensorId tensor, std::string_view scope) { entries_.emplace_back(scope, tensor); }
  // What another list holds until its own end, until the end of this one.
  void take(const HeldNames& other, std::string_view scope);
  void take(const HeldNames& other);

  std::vector<TensorId> held_until(std::string_view scope) const;

 private:
  std::vector<std::pair<std::string_view, TensorId>> entries_ = {};
};

}  // namespace cairn
