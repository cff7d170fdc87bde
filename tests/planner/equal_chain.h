#pragma once

#include <cstdint>

#include "graph/graph.h"

// Equal layers, for the algorithms that count on them.

namespace cairn::test {

enum class EqualSaves { kInput, kAll };

// n equal layers of 1 ns, each of 1 byte, then a loss of no bytes that saves its input:
// x0 -> f0 -> x1 -> f1 -> ... -> xn -> loss. A layer saves its input, or besides its output and an
// auxiliary of 1 byte.
Graph equal_chain(std::int32_t layer_count, EqualSaves saves);

}  // namespace cairn::test
