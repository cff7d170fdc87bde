#pragma once

#include "graph/graph.h"

namespace cairn {

// Whether two graphs differ at most in sizes and costs: every plan of one is a plan of the other,
// and has the same schedule.
bool have_same_structure(const Graph& a, const Graph& b);

}  // namespace cairn
