#pragma once

#include "graph/graph.h"
#include "graph/plan.h"
#include "graph/schedule.h"
#include "graph/trace.h"

// Replays a schedule and adds up live bytes, step by step.
//
//   C a   |##       |      a step's bytes ("during"): everything live before it, all that it
//   C b   |####     |      makes, its workspace. Its frees come at its end ("after").
//   F a   |  ##     |
//
// The simulator follows the schedule's Free steps; it decides nothing about liveness. Allocator
// rounding, fragmentation and the CUDA context are not in these bytes.

namespace cairn {

// `plan` is the schedule's; it only says which tensors are checkpoints. Aborts on a schedule that
// frees what is not live or reads what is not there: `lower` makes none, the validator says why.
Trace simulate(const Graph& graph, const Plan& plan, const Schedule& schedule);

// The steps of the first training step, which makes the optimizer's states.
std::vector<StepTrace> simulate_first_step(const Graph& graph, const Schedule& schedule);

// The peak of `simulate` alone, for searches.
std::int64_t simulated_peak_bytes(const Graph& graph, const Schedule& schedule);

}  // namespace cairn
