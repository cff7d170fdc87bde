#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/gradient_hashes.h"
#include "cli/text_batches.h"
#include "executor/executor.h"
#include "graph/trace.h"
#include "planner/evaluation.h"

// A plan that an executor runs for some training steps, held step by step against its simulation.

namespace cairn {

struct Execution {
  const Graph& graph;  // with the workspaces of the executor's kernels
  Device& device;
  ExecutorOptions options = {};
  std::int64_t step_count = 2;
  const TextBatches* text = nullptr;  // without, the same random inputs in every step
};

// A schedule, and what the simulator says of its steps in the first training step and in others.
struct SimulatedPlan {
  const Schedule& schedule;
  std::vector<StepTrace> first = {};
  std::vector<StepTrace> later = {};
};
SimulatedPlan simulated_plan(const Graph& graph, const Evaluation& evaluation);

// The first step of a schedule whose bytes are not the simulated ones.
struct BytesDifference {
  std::int64_t training_step = 0;  // from 1
  std::string place = {};          // "backward of h.0.up"
  std::int64_t simulated_during_bytes = 0;
  std::int64_t simulated_after_bytes = 0;
  std::int64_t measured_during_bytes = 0;
  std::int64_t measured_after_bytes = 0;
};

inline constexpr std::size_t kExecutedKindCount = 4;  // forward, recompute, backward, optimizer
using KindTimes = std::array<std::int64_t, kExecutedKindCount>;

// Of the ops of one kind, in one training step.
struct OpKindTime {
  std::string_view op_kind = {};
  std::int64_t forward_ns = 0;
  std::int64_t recompute_ns = 0;
  std::int64_t backward_ns = 0;
};
std::int64_t all_ns(const OpKindTime& time);

struct ExecutedPlan {
  std::vector<double> losses = {};  // one a training step; of one that is not finite no more follow
  std::vector<GradientHashes> gradients = {};
  std::int64_t compared_steps = 0;  // of the schedule, in all training steps
  std::int64_t simulated_peak_bytes = 0;
  std::int64_t measured_peak_bytes = 0;
  std::optional<BytesDifference> bytes_difference = {};
  std::int64_t footprint_bytes = 0;  // of the process: at most, over what it keeps of the run
  // All but the first, which makes states and touches memory first; that where it is alone.
  std::vector<ExecutedStep> timed = {};
  std::int64_t step_ns = 0;  // their median
  // Of the training step whose time that is; all kinds of ops, the longest first.
  KindTimes kind_ns = {};
  std::vector<OpKindTime> op_kinds = {};
};

bool is_finite(const ExecutedPlan& executed);

// Throws DeviceError, and ScheduleFault for a schedule that reads what it does not keep.
ExecutedPlan execute_plan(const Execution& execution, const SimulatedPlan& simulated);

// A gradient that two schedules give differently.
struct GradientDifference {
  std::int64_t training_step = 0;  // from 1
  TensorId parameter = kNoTensor;
  std::int64_t element = 0;
  double value = 0;
  double reference_value = 0;
};

// The first, by running both again up to the training step where the hashes differ; empty where all
// are equal.
std::optional<GradientDifference> gradient_difference(const Execution& execution,
                                                      const Schedule& schedule,
                                                      const ExecutedPlan& executed,
                                                      const Schedule& reference_schedule,
                                                      const ExecutedPlan& reference);

}  // namespace cairn
