#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <vector>

#include "executor/executor.h"

// Every bit of every gradient in 128: gradients of two runs are compared without being kept.

namespace cairn {

using GradientHash = std::array<std::uint64_t, 2>;
using GradientHashes = std::map<TensorId, GradientHash>;  // of one training step, by parameter

// Parts come in order. One bit more or less anywhere gives another hash but for one in 2^128 or so;
// nobody is meant to be kept from finding two that have the same.
void add_to_hash(const GradientSeen& seen, GradientHashes& hashes);

}  // namespace cairn
