#pragma once
#include <vector>

#include "graph/ids.h"
namespace cairn {
struct KeepSet {
  std::vector<TensorId> keep;
  std::int64_t held_bytes = 0;
  std::int64_t recompute_cost = 0;
  std::int64_t backward_peak_bytes = 0, forward_peak_bytes = 0;
};
}  // namespace cairn
