#pragma once

#include <cstdint>

#include "graph/graph.h"
#include "graph/schedule.h"

namespace cairn {

// Of all storages that the ops of the middle repeated block make in the first forward pass: the
// bytes of those that are there when the block has ended, its output among them. Throws InputError
// for a graph without blocks.
std::int64_t kept_by_middle_layer(const Graph& graph, const Schedule& schedule);

}  // namespace cairn
