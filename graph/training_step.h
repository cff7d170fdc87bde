#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "graph/graph.h"
#include "graph/schedule.h"

// The training step around forward and backward: gradient accumulation, the optimizer, and what is
// left for the next step.
//
//   micro-batch 0: C .. B ..   micro-batch 1: C .. B ..   O   FG w1 FG w2 ..
//
// The first step differs from all later ones in memory, not in its steps: optimizer states are made
// by its OptimizerStep and live from then on.

namespace cairn {

// How the optimizer goes through the parameters (torch.optim's foreach and fused).
enum class OptimizerLoop {
  kFused,    // one kernel, without temporaries
  kForeach,  // all parameters at once, operation by operation: torch.optim's default on a GPU
  kForLoop,  // one parameter after the other
};

struct TrainingStep {
  std::int64_t micro_batches = 1;      // gradient accumulation; at least 1
  bool keeps_gradients = false;        // zero_grad(set_to_none=False)
  bool optimizer_in_backward = false;  // steps each parameter when its gradient is complete
  // Of a buffer that stays, into which each gradient is added when it is complete, and dropped
  // (Megatron-LM's main gradients); without, parameters keep their gradients.
  std::optional<DataType> main_gradient_type = {};
  OptimizerLoop optimizer_loop = OptimizerLoop::kFused;
};

// Makes the schedule of a training step from that of its forward and backward pass (`lower`). Where
// there are several micro-batches it has two passes: all later ones repeat the second. Where
// nothing is trainable there is no OptimizerStep.
Schedule lower_training_step(const Graph& graph, const TrainingStep& step, Schedule pass);

// Does the schedule leave gradients of parameters for the next training step?
bool keeps_gradients(const Graph& graph, const Schedule& schedule);

// Bytes of temporaries while the optimizer steps these parameters, one after the other or all at
// once. `makes_states`: they have none yet, and states of later parts are less than the temporaries
// of earlier ones by so much. Measured (tests/oracle/optimizer_test.py).
std::int64_t optimizer_workspace_bytes(const Graph& graph, const ParameterGroup& group,
                                       bool makes_states = false);

// "fused", "foreach", "for-loop".
std::string_view optimizer_loop_name(OptimizerLoop loop);

}  // namespace cairn
