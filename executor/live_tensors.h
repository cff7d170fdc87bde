#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "executor/gradients.h"
#include "executor/holders.h"
#include "graph/graph.h"

// What holds an executor's memory, for messages.

namespace cairn {

struct LiveArray {
  std::string name = {};
  std::int64_t bytes = 0;
};

// Of tensors and gradients; a block that several share counts for the first.
std::vector<LiveArray> live_arrays(const Graph& graph, const Holders& tensors,
                                   const Gradients& gradients);

// "\nlive outside of this step are 1,234 bytes:\n  512  layers.0.up\n...": the largest, and the
// rest.
std::string largest_text(std::vector<LiveArray> live, std::int64_t live_bytes);

}  // namespace cairn
