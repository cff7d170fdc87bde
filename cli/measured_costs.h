#pragma once

#include <string>
#include <vector>

#include "executor/executor.h"
#include "graph/graph.h"
#include "graph/measured_costs.h"
#include "graph/schedule.h"

// From the times of an executor's steps to what ops cost, and from those to the time of another
// schedule.

namespace cairn {

// Medians over training steps of one schedule, which computes every op: keep-all's. The steps are
// those behind the warm-up, for the first one makes optimizer states. Recomputes count as nothing
// here: an op's forward is its Compute.
MeasuredCosts measured_costs(const Graph& graph, const Schedule& schedule,
                             const std::vector<ExecutedStep>& steps, const std::string& device);

// What a training step of `schedule` takes longer than one of `reference`, both at measured times:
// 0.24 is 24 %. Throws InputError where some op has none.
double predicted_slowdown(const Graph& graph, const Schedule& schedule, const Schedule& reference,
                          const MeasuredCosts& costs);

// The median, of an even count between the two in the middle, and the quartiles; 0 of none.
MeasuredTime measured_time(std::vector<std::int64_t> times_ns);

}  // namespace cairn
