#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "graph/trace.h"

// Where two peaks differ, group by group.

namespace cairn {

// Live items of one name but for the number of their layer, on both sides.
struct PeakDifference {
  std::string name = {};  // "layers.*.act"
  MemoryCategory category = MemoryCategory::kSavedActivations;
  std::int64_t a_bytes = 0;
  std::int64_t b_bytes = 0;
};

// Those that differ, the largest difference first. Their sum is that of the peaks.
std::vector<PeakDifference> peak_differences(const Trace& a, const Trace& b);

}  // namespace cairn
