#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "graph/device_spec.h"
#include "graph/graph.h"
#include "graph/plan.h"
#include "graph/schedule.h"
#include "graph/trace.h"
#include "planner/planner.h"
#include "sim/roofline.h"

// What one strategy makes of a graph: the plan, its schedule, what happens in memory, the time.

namespace cairn {

struct Evaluation {
  Strategy strategy = {};
  std::string name = {};  // "uniform:4"
  Plan plan = {};
  Schedule schedule = {};
  Trace trace = {};
  std::optional<ScheduleTime> time = {};  // empty without stated times or a device's rates
};

// Plans, lowers, simulates and validates. Aborts when the validator finds a fault or another peak:
// nothing is reported of a plan that did not pass. Throws InputError.
Evaluation evaluate(const Graph& graph, const Strategy& strategy, Extent extent,
                    const DeviceSpec* device);

// The same of a plan that no strategy made.
Evaluation evaluate_plan(const Graph& graph, Plan plan, const DeviceSpec* device);

// Aborts when the validator finds a fault, or another peak.
void check_with_validator(const Graph& graph, const Evaluation& evaluation);

// The same regions over the same order: the same schedule.
bool is_same_plan(const Plan& a, const Plan& b);

// FLOPs of one forward and backward pass without recomputes.
std::int64_t step_flops(const Graph& graph);

// What an evaluation costs more than `reference` (strategy none): 0.24 is a step that takes 24 %
// longer; by time where both have one, else by FLOPs.
double slowdown(const Evaluation& evaluation, const Evaluation& reference,
                std::int64_t reference_flops);

// "backward", "forward", "recompute". Not for a Free, which has no entry in a trace.
std::string_view phase_name(StepKind kind);

// "backward of layers.31.down".
std::string step_place(const Graph& graph, const Step& step);
std::string peak_place(const Graph& graph, const Evaluation& evaluation);

// The step of the peak. The schedule must have one, as that of every graph has.
const Step& peak_step(const Evaluation& evaluation);

}  // namespace cairn
