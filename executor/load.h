#pragma once

#include <cstdint>

#include "executor/memory.h"
#include "graph/graph.h"

// What an executor begins with.

namespace cairn {

// A parameter or input: weights of a normal distribution, weights of norms one, biases zero, ids
// and labels below what their reader has rows or classes for. Random by `seed` and the tensor's
// name.
Array load_tensor(const Graph& graph, TensorId id, Memory& memory, std::uint64_t seed);

}  // namespace cairn
