#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "graph/graph.h"
#include "graph/plan.h"
#include "graph/schedule.h"
#include "graph/training_step.h"

// Is this schedule what the rules of docs/accounting.md make of this plan, step for step? The
// answer is derived again from the rules, one plain pass after another, and shares no code with
// `lower` or the simulator: it knows nothing of why a schedule looks as it does, and it repairs
// nothing.
//
//   plan ──► every region's recompute ──► Computes, Recomputes, Backwards   = the schedule's?
//                                                │ who reads what, when
//                                                ▼
//                                    lives of tensors and gradients ──► Frees   = the schedule's?
//                                                                   └─► peak

namespace cairn {

enum class Fault {
  kNone,
  // The plan.
  kPlanOrder,    // not every op once, or an op before what makes its input
  kPlanRegions,  // a region that is empty, leaves its parent or overlaps its neighbour
  kPlanKeep,     // a keep list on an inner region, or of what the region does not make
  kUselessKeep,  // kept, but read by no Backward and no Recompute
  // The order of steps.
  kUnknownStep,  // of an op or tensor that the graph does not have
  kMissingCompute,
  kRepeatedCompute,
  kComputeOutOfOrder,
  kBackwardWithoutGradient,  // of an op that has no Backward
  kMissingBackward,
  kRepeatedBackward,
  kBackwardOutOfOrder,
  kRecomputeOutsideRegion,  // of an op that no region drops
  kRecomputeOfNever,        // of an op that may not run twice
  kReadOfDroppedCopy,       // of forward's copy of what a region dropped
  kNeedlessRecompute,       // of an op outside the extent
  kRepeatedRecompute,       // more often than the regions around the op say
  kMissingRecompute,
  kRecomputeAtWrongTrigger,  // in time for its readers, but not directly before its Backward
  kRecomputeOutOfOrder,      // not in the plan's order, or before an enclosing region
  // Free: the copies of tensors.
  kFreeOfResident,  // of an input or parameter
  kFreeOfUnmade,
  kFreeTooEarly,
  kFreeTooLate,
  kFreeTwice,
  kMissingFree,
  // FreeGradient.
  kGradientFreeOfLasting,  // of what no op made: its gradient outlives the backward pass
  kGradientFreeOfUnmade,
  kGradientFreeTooEarly,
  kGradientFreeTooLate,
  kGradientFreeTwice,
  kMissingGradientFree,
  // The training step around forward and backward.
  kMicroBatches,          // fewer or more passes than the training step has
  kOptimizerGroup,        // not the parameters that have a gradient, or not in the right loop
  kMissingOptimizerStep,  // of a parameter that has a gradient
  kRepeatedOptimizerStep,
  kOptimizerStepAtWrongPlace,  // not behind the last contribution, or not directly
};
inline constexpr std::size_t kFaultCount =
    static_cast<std::size_t>(Fault::kOptimizerStepAtWrongPlace) + 1;

struct ValidationResult {
  Fault fault = Fault::kNone;
  std::size_t step = 0;         // position in Schedule::steps of the fault; its size: at the end
  std::string message = {};     // one line for a person; empty without a fault
  std::int64_t peak_bytes = 0;  // 0 with a fault
  std::size_t peak_step = 0;    // position in Schedule::steps; the earliest when tied
};

// The first fault, the plan's before those of the order of steps before those of the frees.
// Throws InputError only when a sum of bytes passes 2^63 - 1. The schedule is that of one forward
// and backward pass.
ValidationResult validate(const Graph& graph, const Plan& plan, const Schedule& schedule);

// The same of a whole training step: each micro-batch like a pass of its own, and the optimizer.
// The peak is that of a training step which is not the first.
ValidationResult validate_training_step(const Graph& graph, const Plan& plan,
                                        const TrainingStep& step, const Schedule& schedule);

// "kFreeTooEarly" is "free too early", and so on.
std::string_view fault_name(Fault fault);

}  // namespace cairn
