#pragma once

#include <string>

#include "graph/graph.h"

namespace cairn {

// The first op, in their order, at which two graphs differ, or a tensor that it reads, makes or
// saves, in words: "'q' was [1, 8] bf16, here it is [2, 8] bf16". "" where none is found: costs,
// and what is trained, are not looked at.
std::string first_difference_text(const Graph& then, const Graph& now);

}  // namespace cairn
