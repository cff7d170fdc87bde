#pragma once

#include <cstddef>
#include <vector>

#include "graph/graph.h"
#include "graph/ids.h"

// Questions about who comes before whom. find_cycle takes bare edges, because a reader asks it of
// a file's ops before there is a Graph: an op is its position in the file.
//
// Nothing here recurses, so that graphs of hundreds of thousands of ops work.

namespace cairn {

struct DagEdge {
  std::size_t before = 0;  // this op makes what
  std::size_t after = 0;   // this op reads
};

// The ops of one cycle, each before the next and the last before the first, from the lowest on.
// Empty when there is none. Edges may repeat; one from an op to itself is a cycle.
std::vector<std::size_t> find_cycle(std::size_t op_count, const std::vector<DagEdge>& edges);

// The articulation points of the gradient path, in execution order: without such an op, the ops
// with a Backward fall apart, where two are joined when one reads a tensor of the other that
// carries a gradient. The ends of a chain are none.
//
//   embed - norm - attn - add - head - loss      a skip from embed to add: add and head are
//       └──────────────────┘                     articulation points, norm and attn are not
std::vector<OpId> articulation_ops(const Graph& graph);

}  // namespace cairn
