#pragma once

#include <vector>

#include "executor/array.h"
#include "graph/ids.h"

// The arrays that tensors, or their gradients, are at the moment, by tensor.

namespace cairn {

class Holders {
 public:
  explicit Holders(std::size_t tensor_count) : arrays_(tensor_count) {}

  const Array& operator[](TensorId id) const { return arrays_[index(id)]; }
  bool holds(TensorId id) const { return arrays_[index(id)].is_there(); }

  void hold(TensorId id, Array array) {
    release(id);
    ++array.block->holders;
    arrays_[index(id)] = std::move(array);
  }
  // Nothing where it holds none.
  void release(TensorId id) {
    Array& array = arrays_[index(id)];
    if (array.is_there()) --array.block->holders;
    array = {};
  }

 private:
  std::vector<Array> arrays_ = {};
};

}  // namespace cairn
