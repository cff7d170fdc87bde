#pragma once

#include <cstddef>
#include <vector>

#include "graph/graph.h"
#include "graph/schedule.h"
#include "sim/validator.h"
#include "sim/validator_order.h"

// The validator's second half: who lives when, and how many bytes that is. Not for other callers.

// Lives are counted in runs: the steps that are no frees, in order. A copy lives from the run that
// makes it to its last need, both inclusive; its free stands directly behind that last run.

namespace cairn {

struct Run {
  std::size_t step = 0;  // in the schedule
  StepKind kind = StepKind::kCompute;
  OpId op = kNoOp;
  std::vector<TensorId> reads = {};  // for Backward: tensors, not gradients; and what is held to it
};

struct Life {
  std::size_t first = 0;
  std::size_t last = 0;
};

using LivesByTensor = std::vector<std::vector<Life>>;

// The frees of a schedule whose order was found right: kFreeOfResident to kMissingGradientFree.
// Without a fault, the result carries the peak.
ValidationResult check_memory(const Graph& graph, const Plan& plan,
                              const std::vector<RegionRule>& rules, const Schedule& schedule);

// The Free steps alone, and the FreeGradient steps alone.
ValidationResult check_frees(const Graph& graph, const Schedule& schedule,
                             const std::vector<Run>& runs, const LivesByTensor& lives);
ValidationResult check_gradient_frees(const Graph& graph, const Schedule& schedule,
                                      const std::vector<Run>& runs, const LivesByTensor& lives);

}  // namespace cairn
