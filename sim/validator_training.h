#pragma once

#include <cstddef>
#include <vector>

#include "graph/graph.h"
#include "graph/plan.h"
#include "graph/schedule.h"
#include "sim/validator.h"
#include "sim/validator_memory.h"

// The parts of a training step that the validator looks at one by one. Not for other callers.

namespace cairn {

// The steps of one micro-batch, with the OptimizerSteps among or behind them.
struct MicroBatchSchedule {
  const Schedule* schedule = nullptr;
  MicroBatch around = {};
  std::size_t first_step = 0;  // its place in the whole schedule
};

// The plan, and then each micro-batch: the first fault, or the largest peak.
ValidationResult validate_micro_batches(const Graph& graph, const Plan& plan,
                                        const std::vector<MicroBatchSchedule>& micro_batches);

}  // namespace cairn
