#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "graph/ids.h"

// What happened in memory when a schedule was replayed.

namespace cairn {

enum class MemoryCategory {
  kParameters,
  kOptimizer,
  kGradients,         // of parameters
  kInputs,            // ids, labels, masks, tables
  kCheckpoints,       // held at the edge of a region for its recompute
  kSavedActivations,  // every other tensor made by forward or recompute
  kActivationGradients,
  kLogitsAndLoss,  // logits, loss, what lies between, and their gradients
  kWorkspace,
};
inline constexpr std::size_t kMemoryCategoryCount = 9;

// "parameters", "optimizer", ..., as printed and as JSON keys.
std::string_view memory_category_name(MemoryCategory category);

struct StepTrace {
  std::size_t step = 0;           // position in Schedule::steps of the Compute, Recompute, Backward
  std::int64_t during_bytes = 0;  // live before it + all it makes + its workspace
  std::int64_t after_bytes = 0;   // after its frees
};

struct LiveItem {
  std::string name = {};  // tensor, "gradient of tensor", "workspace of op"
  MemoryCategory category = MemoryCategory::kSavedActivations;
  std::int64_t bytes = 0;
};

struct Trace {
  std::vector<StepTrace> steps = {};  // one entry for each step that is not a Free
  std::int64_t resident_bytes = 0;    // before the first step: parameters, optimizer, inputs
  std::int64_t peak_bytes = 0;
  std::size_t peak_entry = 0;               // position in `steps`; the earliest when tied
  std::vector<LiveItem> live_at_peak = {};  // largest first; sums to peak_bytes
  std::array<std::int64_t, kMemoryCategoryCount> peak_breakdown = {};
  std::int64_t recompute_flops = 0;  // extra FLOPs against keep-all
  std::int64_t recompute_count = 0;  // Recompute steps
};

}  // namespace cairn
