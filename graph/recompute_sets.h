#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "graph/plan.h"
#include "graph/region_tree.h"

// Which ops the one recompute of each region runs: its extent (docs/accounting.md, sections 3, 5).

namespace cairn {

struct RecomputeSets {
  std::vector<std::vector<OpId>> ops_of_frame = {};  // in plan order; the root's is empty
  // By frame, `prefix`: position of the op at which its recompute stops.
  std::vector<std::int32_t> stop_of_frame = {};
  // Frames whose recompute this frame's recompute reads from; they run first.
  std::vector<std::vector<std::int32_t>> reads_frames = {};
  std::vector<bool> is_kept = {};  // by tensor: in a keep list, or forced to be
  std::vector<std::string> warnings = {};
  TensorId useless_keep =
      kNoTensor;  // the first kept tensor that no Backward and no recompute reads
};

RecomputeSets recompute_sets(const Graph& graph, const Plan& plan, const RegionTree& tree);

}  // namespace cairn
