#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.h"
#include "graph/ids.h"
#include "graph/plan.h"

// The linear list of steps a training step executes. Simulator and executor just follow it.
//
//   C embed   C l0   F a0   C l1 ...   C loss   B loss   R l0   B l1   FG a1   ...   O   FG w   ...
//
// Free steps stand directly behind the step of the last read, and say that the copy of the tensor
// (F) or the gradient of the tensor (FG) dies there. They are derived by `lower`, never planned.

namespace cairn {

enum class StepKind { kCompute, kRecompute, kBackward, kFree, kFreeGradient, kOptimizerStep };

struct Step {
  StepKind kind = StepKind::kCompute;
  OpId op = kNoOp;               // Compute, Recompute, Backward
  TensorId tensor = kNoTensor;   // Free, FreeGradient
  std::int32_t group = -1;       // OptimizerStep: which of Schedule::groups
  std::int32_t micro_batch = 0;  // 1 stands for all later ones too

  friend bool operator==(const Step&, const Step&) = default;
};

// Parameters that one OptimizerStep updates.
struct ParameterGroup {
  std::vector<TensorId> parameters = {};
  bool at_once = false;  // operation by operation over all of them (foreach), else one by one
};

struct Schedule {
  std::vector<Step> steps = {};
  std::vector<ParameterGroup> groups = {};
  std::int64_t micro_batches = 1;          // that a training step really has
  std::vector<std::string> warnings = {};  // dear or useless keep lists, forced keeps
};

// Lowers a plan to the schedule of one forward and backward pass by the rules of
// docs/accounting.md; lower_training_step (graph/training_step.h) puts the optimizer's around it.
// Throws InputError when the plan does not fit the graph (see check_plan) or keeps a tensor that
// nothing reads.
Schedule lower(const Graph& graph, const Plan& plan);

bool is_free(StepKind kind);

// How often a training step runs this step.
std::int64_t times_run(const Schedule& schedule, const Step& step);

// "forward", "recompute", "backward", "optimizer step". Not for a Free, which belongs to the step
// before it.
std::string_view step_kind_name(StepKind kind);

// "C l0", "R l0", "B l0", "F a", "FG a", "O".
std::string step_text(const Graph& graph, const Step& step);

}  // namespace cairn
