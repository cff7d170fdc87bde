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
  std::size_t step = 0;           // position in Schedule::steps of a step that is not a Free
  std::int64_t during_bytes = 0;  // live before it + all it makes + its workspace
  std::int64_t after_bytes = 0;   // after its frees
};

// The parts of a training run, in the order of their first appearance.
enum class Phase { kLoad, kForward, kLoss, kBackward, kOptimizer, kEvaluation, kSave };
inline constexpr std::size_t kPhaseCount = 7;

// "load", "forward", "loss", "backward", "optimizer step", "evaluation", "checkpoint save".
std::string_view phase_name(Phase phase);

// The largest step of a phase; the earliest when tied.
struct PhasePeak {
  Phase phase = Phase::kForward;
  std::int64_t bytes = 0;
  std::size_t step = 0;  // position in Schedule::steps
};

enum class LiveKind {
  kTensor,
  kGradient,
  kOptimizerStates,
  kMasterWeights,
  kMainGradients,
  kDuplicate,     // that a recompute makes of a live tensor
  kContribution,  // a later one, to a gradient
  kWorkspace,     // of an op, or the optimizer's temporaries
};

struct LiveItem {
  std::string name = {};  // tensor, "gradient of tensor", "workspace of op"
  MemoryCategory category = MemoryCategory::kSavedActivations;
  std::int64_t bytes = 0;
  LiveKind kind = LiveKind::kTensor;
  TensorId tensor = kNoTensor;  // of all but states and workspaces
};

// Of a training step that has states of the optimizer before it: of every one but the first.
struct Trace {
  std::vector<StepTrace> steps = {};  // one entry for each step that is not a Free
  std::int64_t resident_bytes = 0;    // before it: parameters, optimizer, inputs, kept gradients
  std::int64_t peak_bytes = 0;
  std::size_t peak_entry = 0;               // position in `steps`; the earliest when tied
  std::vector<LiveItem> live_at_peak = {};  // largest first; sums to peak_bytes
  std::array<std::int64_t, kMemoryCategoryCount> peak_breakdown = {};
  std::vector<PhasePeak> phases = {};        // of this step: forward to optimizer step
  std::vector<PhasePeak> first_phases = {};  // of the first, whose states the optimizer step makes
  std::int64_t recompute_flops = 0;          // extra FLOPs against keep-all, of all micro-batches
  std::int64_t recompute_count = 0;          // Recompute steps, of all micro-batches
};

}  // namespace cairn
