#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>

#include "executor/executor.h"
#include "executor/memory.h"
#include "graph/training_step.h"
#include "planner/evaluation.h"
#include "tests/executor/faulty_device.h"
#include "tests/executor/small_models.h"

namespace cairn {
namespace {

struct Fault {
  bool is_schedule_fault = false;
  std::string message = {};  // "" of a run that went through
};

// Two training steps, for the first has no states of the optimizer; all that the executor took is
// given back, whatever happens.
Fault run(const Graph& graph, const Schedule& schedule, FaultyDevice& device,
          const ExecutorOptions& options = {}) {
  Fault fault;
  try {
    Executor executor(graph, schedule, device, options);
    executor.run_step();
    executor.run_step();
  } catch (const DeviceError& error) {
    fault.message = error.what();
  } catch (const ScheduleFault& error) {
    fault = {.is_schedule_fault = true, .message = error.what()};
  }
  CHECK(device.blocks.empty());
  return fault;
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

Evaluation every_layer(const Graph& graph) {
  return evaluate(graph, {.algorithm = Algorithm::kEveryLayer}, {});
}

TEST_CASE("a limit: the step that passes it is named, with what is live, and all is given back") {
  const Graph graph = small_gpt().graph;
  const Evaluation evaluation = every_layer(graph);
  const std::int64_t peak_bytes = evaluation.trace.peak_bytes;
  FaultyDevice device;
  CHECK(run(graph, evaluation.schedule, device, {.limit_bytes = peak_bytes}).message == "");
  const std::string message =
      run(graph, evaluation.schedule, device, {.limit_bytes = peak_bytes - 1}).message;
  CAPTURE(message);
  CHECK(contains(message, " of " + std::to_string(evaluation.schedule.steps.size()) + ", "));
  CHECK(contains(message, "bytes do not fit"));
  CHECK(contains(message, "live outside of this step are"));
  CHECK(contains(message, "wte.weight"));
}

TEST_CASE("a limit below what is loaded names the tensor") {
  const Graph graph = small_gpt().graph;
  FaultyDevice device;
  const std::string message =
      run(graph, every_layer(graph).schedule, device, {.limit_bytes = 20'000}).message;
  CAPTURE(message);
  CHECK(contains(message, "loading wte.weight: 32,768 bytes do not fit"));
}

TEST_CASE("a kernel that fails, at every launch of a training step: all is given back") {
  const Graph graph = small_gpt(1).graph;
  const Schedule schedule = every_layer(graph).schedule;
  FaultyDevice whole;
  CHECK(run(graph, schedule, whole).message == "");
  REQUIRE(whole.launch_count > 100);
  for (std::int64_t launch = 0; launch < whole.launch_count; ++launch) {
    CAPTURE(launch);
    FaultyDevice device;
    device.failing_launch = launch;
    const std::string message = run(graph, schedule, device).message;
    CAPTURE(message);
    CHECK(contains(message, "a kernel failed"));
    CHECK((contains(message, "step ") || contains(message, "loading ")));
  }
}

// The schedule with one Free before the step that it stands behind, and behind what is before that.
Schedule freed_a_step_early(const Schedule& schedule, std::size_t free) {
  std::size_t step = free;
  while (is_free(schedule.steps[step].kind)) --step;
  Schedule early = schedule;
  early.steps.erase(early.steps.begin() + static_cast<std::ptrdiff_t>(free));
  early.steps.insert(early.steps.begin() + static_cast<std::ptrdiff_t>(step), schedule.steps[free]);
  return early;
}

bool is_among(const std::vector<TensorId>& ids, TensorId id) {
  return std::find(ids.begin(), ids.end(), id) != ids.end();
}

// Whether the step reads what dies behind it, and not only a scope of the model's code ends there.
bool reads(const Graph& graph, const Schedule& schedule, const Step& step, const Step& free) {
  if (step.kind == StepKind::kOptimizerStep) {
    return is_among(schedule.groups[static_cast<std::size_t>(step.group)].parameters, free.tensor);
  }
  const Op& op = graph.op(step.op);
  if (step.kind != StepKind::kBackward) return is_among(op.inputs, free.tensor);
  return is_among(free.kind == StepKind::kFree ? op.saved : op.outputs, free.tensor);
}

TEST_CASE("whatever is freed a step early is missed by the step that reads it") {
  const Graph graph = small_gpt(1).graph;
  const Schedule schedule = every_layer(graph).schedule;
  int mutant_count = 0;
  for (std::size_t i = 0; i < schedule.steps.size(); ++i) {
    const Step& free = schedule.steps[i];
    if (!is_free(free.kind)) continue;
    std::size_t reader = i;
    while (is_free(schedule.steps[reader].kind)) --reader;
    if (!reads(graph, schedule, schedule.steps[reader], free)) continue;
    if (free.kind == StepKind::kFreeGradient && free.tensor == graph.loss) continue;  // it is made
    CAPTURE(step_text(graph, free));
    CAPTURE(step_text(graph, schedule.steps[reader]));
    FaultyDevice device;
    const Fault fault = run(graph, freed_a_step_early(schedule, i), device);
    CAPTURE(fault.message);
    CHECK(fault.is_schedule_fault);
    CHECK(contains(fault.message, "it reads "));
    ++mutant_count;
  }
  CHECK(mutant_count > 60);
}

// Reads a block when it is given back.
class WatchingDevice : public FaultyDevice {
 public:
  float last_released = 0.0F;
  void release(void* data) noexcept override {
    std::memcpy(&last_released, data, sizeof(last_released));
    FaultyDevice::release(data);
  }
};

TEST_CASE("freed memory is NaN where it is poisoned, and left as it was where it is not") {
  for (const bool poisons : {false, true}) {
    WatchingDevice device;
    Memory memory(device);
    memory.poison_freed(poisons);
    const float number = 1.0F;
    device.copy_in(memory.allocate(64)->data, &number, sizeof(number));
    CHECK(std::isnan(device.last_released) == poisons);
  }
}

}  // namespace
}  // namespace cairn
