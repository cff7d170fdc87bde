#pragma once

#include <string>
#include <vector>

#include "graph/graph.h"
#include "graph/ids.h"
#include "graph/plan.h"

// The linear list of steps a training step executes. Simulator and executor just follow it.
//
//   C embed   C l0   F a0   C l1 ...   C loss   B loss   R l0   B l1   FG a1   ...
//
// Free steps stand directly behind the step of the last read, and say that the copy of the tensor
// (F) or the gradient of the tensor (FG) dies there. They are derived by `lower`, never planned.

namespace cairn {

enum class StepKind { kCompute, kRecompute, kBackward, kFree, kFreeGradient };

struct Step {
  StepKind kind = StepKind::kCompute;
  OpId op = kNoOp;              // Compute, Recompute, Backward
  TensorId tensor = kNoTensor;  // Free, FreeGradient

  friend bool operator==(const Step&, const Step&) = default;
};

struct Schedule {
  std::vector<Step> steps = {};
  std::vector<std::string> warnings = {};  // dear or useless keep lists, forced keeps
};

// Lowers a plan to its schedule by the rules of docs/accounting.md.
// Throws InputError when the plan does not fit the graph (see check_plan) or keeps a tensor that
// nothing reads.
Schedule lower(const Graph& graph, const Plan& plan);

// "C l0", "R l0", "B l0", "F a", "FG a".
std::string step_text(const Graph& graph, const Step& step);

}  // namespace cairn
