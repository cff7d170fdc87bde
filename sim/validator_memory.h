#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "graph/graph.h"
#include "graph/schedule.h"
#include "sim/validator.h"
#include "sim/validator_groups.h"
#include "sim/validator_order.h"

// The validator's second half: who lives when, and how many bytes that is. Not for other callers.

// Lives are counted in runs: the steps that are no frees, in order. A copy lives from the run that
// makes it to its last need, both inclusive; its free stands directly behind that last run.

namespace cairn {

struct Run {
  std::size_t step = 0;  // in the schedule
  StepKind kind = StepKind::kCompute;
  OpId op = kNoOp;
  std::int32_t group = -1;  // of an OptimizerStep
};

struct Life {
  std::size_t first = 0;
  std::size_t last = 0;  // of what lasts: one past the last run
};

// Of a copy of a tensor, or of its gradient.
struct TensorLife {
  TensorId tensor = kNoTensor;
  Life life = {};
  bool outlives = false;  // these steps: no free is due
};

// What stands around the steps of one micro-batch.
struct MicroBatch {
  bool finds_gradients = false;  // of parameters: an earlier one's, or kept
  bool leaves_gradients = true;  // of parameters
  bool leaves_input_gradients = true;
  bool adds_to_main_gradients = false;  // of parameters that have one: by hooks, in backward
};

// Everything with bytes of its own: it is charged in the runs [life.first, life.last].
struct Charge {
  std::int64_t bytes = 0;
  Life life = {};
  bool ends_in_hook = false;  // of a parameter: behind the frees and sums of its last run
};

// A copy of a storage: who owns it, how long tensors are on it, and which of the charges it is.
struct StorageCopy {
  TensorId owner = kNoTensor;
  Life life = {};
  std::size_t charge = 0;
};

// What the rules say of memory.
struct Account {
  std::vector<Charge> charges = {};
  std::vector<StorageCopy> storage_copies = {};
  std::vector<TensorLife> tensor_lives = {};    // one a copy
  std::vector<TensorLife> gradient_lives = {};  // at most one a tensor
  std::vector<Charge> sums = {};  // out of place: beside what is live behind their one run's frees
};

// The frees of a schedule whose order was found right: kFreeOfResident to kMissingGradientFree.
// Without a fault, the result carries the peak.
ValidationResult check_memory(const Graph& graph, const Plan& plan,
                              const std::vector<RegionRule>& rules, const MicroBatch& micro_batch,
                              const Schedule& schedule);

// Copies of tensors and of storages, and the workspaces of Computes and Recomputes.
void add_tensors(const Graph& graph, const Plan& plan, const std::vector<RegionRule>& rules,
                 const std::vector<Run>& runs, Account& account);

// What checkpoints hold unread: a member's group is the tensor, its value the run behind which it
// is let go of.
std::vector<Member> reads_of_holders(const Graph& graph, const Plan& plan,
                                     const std::vector<RegionRule>& rules,
                                     const std::vector<Run>& runs);

// Gradients, and the workspaces of Backwards and OptimizerSteps.
void add_gradients(const Graph& graph, const std::vector<Run>& runs,
                   const std::vector<ParameterGroup>& groups, const MicroBatch& micro_batch,
                   Account& account);

// The Free steps alone, and the FreeGradient steps alone.
ValidationResult check_frees(const Graph& graph, const Schedule& schedule,
                             const std::vector<Run>& runs, const std::vector<TensorLife>& lives);
ValidationResult check_gradient_frees(const Graph& graph, const Schedule& schedule,
                                      const std::vector<Run>& runs,
                                      const std::vector<TensorLife>& lives);

}  // namespace cairn
