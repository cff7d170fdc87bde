#pragma once

#include <cstddef>
#include <string_view>
#include <utility>
#include <vector>

#include "graph/ids.h"

namespace cairn {

// Names in scope and the tensors they stand for; an inner table hides the outer, and a later entry
// one before it. The names are those of the family and layer files. A table is short.
class TensorNames {
 public:
  explicit TensorNames(const TensorNames* outer = nullptr) : outer_(outer) {}

  void set(std::string_view name, TensorId tensor) { entries_.emplace_back(name, tensor); }

  TensorId find(std::string_view name) const {
    for (const TensorNames* table = this; table != nullptr; table = table->outer_) {
      for (std::size_t i = table->entries_.size(); i-- > 0;) {
        if (table->entries_[i].first == name) return table->entries_[i].second;
      }
    }
    return kNoTensor;
  }

 private:
  const TensorNames* outer_ = nullptr;
  std::vector<std::pair<std::string_view, TensorId>> entries_ = {};
};

}  // namespace cairn
