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
#include "graph/training_step.h"
#include "planner/planner.h"
#include "sim/roofline.h"

// What one strategy makes of a graph: the plan, its schedule, what happens in memory, the time.

namespace cairn {

// What a plan is evaluated for.
struct Setting {
  Extent extent = Extent::kPrefix;
  TrainingStep step = {};
  const DeviceSpec* device = nullptr;
  std::int64_t rest_ns = 0;  // measured: of a training step besides its ops (sim/roofline.h)
};

struct Evaluation {
  Strategy strategy = {};
  std::string name = {};  // "uniform:4"
  Plan plan = {};
  Schedule schedule = {};
  Trace trace = {};
  std::int64_t step_flops = 0;            // of the passes, without recomputes
  std::optional<ScheduleTime> time = {};  // empty without stated times or a device's rates
};

// Plans, lowers, simulates and validates. Aborts when the validator finds a fault or another peak:
// nothing is reported of a plan that did not pass. Throws InputError.
Evaluation evaluate(const Graph& graph, const Strategy& strategy, const Setting& setting);

// The same of a plan that no strategy made.
Evaluation evaluate_plan(const Graph& graph, Plan plan, const Setting& setting);

// Aborts when the validator finds a fault, or another peak.
void check_with_validator(const Graph& graph, const TrainingStep& step,
                          const Evaluation& evaluation);

// The same regions over the same order: the same schedule.
bool is_same_plan(const Plan& a, const Plan& b);

// FLOPs of the forward and backward passes of a training step, without recomputes.
std::int64_t step_flops(const Graph& graph, const TrainingStep& step);

// What an evaluation costs more than `reference` (strategy none): 0.24 is a step that takes 24 %
// longer; by time where both have one, else by FLOPs.
double slowdown(const Evaluation& evaluation, const Evaluation& reference,
                std::int64_t reference_flops);

}  // namespace cairn
