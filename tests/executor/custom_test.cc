#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <memory>

#include "executor/workspaces.h"
#include "graph/graph_builder.h"
#include "graph/plan.h"
#include "graph/training_step.h"
#include "tests/executor/executed_steps.h"

namespace cairn {
namespace {

constexpr std::int64_t kForwardNs = 2'000'000;
constexpr std::int64_t kBackwardNs = 3'000'000;

// x -> h -> l, of 1 KiB each, with a weight.
Graph two_ops(const Cost& forward, const Cost& backward) {
  GraphBuilder builder("two", DataType::kFloat32);
  const TensorId x = builder.add_input_bytes("x", 1024, false);
  const TensorId weight = builder.add_parameter_bytes("weight", 1024, true);
  const TensorId h = builder.add_custom({.name = "h",
                                         .inputs = {x, weight},
                                         .outputs = {{"h", 1024}},
                                         .saved = {"x", "weight"},
                                         .forward = forward,
                                         .backward = backward})[0];
  const TensorId l = builder.add_custom({.name = "l",
                                         .inputs = {h},
                                         .outputs = {{"l", 1024}},
                                         .saved = {"h"},
                                         .forward = forward,
                                         .backward = backward})[0];
  return builder.build(l);
}

// Both ops again before backward.
Schedule recomputing(const Graph& graph) {
  const Plan plan{.order = keep_all_plan(graph).order, .regions = {{.begin = 0, .end = 2}}};
  return lower_training_step(graph, {}, lower(graph, plan));
}

TEST_CASE("an op whose time is stated takes that time, forward, recomputed and backward") {
  const Graph graph = two_ops({.time_ns = kForwardNs}, {.time_ns = kBackwardNs});
  const Schedule schedule = recomputing(graph);
  const std::unique_ptr<Device> device = make_cpu_device();
  Executor executor(graph, schedule, *device, {.optimizer = {.rule = SteppedBy::kSgd}});
  std::map<StepKind, std::int64_t> shortest_ns;
  for (int i = 0; i < 20; ++i) {
    for (const MeasuredStep& measured : executor.run_step().steps) {
      const StepKind kind = schedule.steps[measured.step].kind;
      if (kind == StepKind::kOptimizerStep) continue;
      CHECK(measured.time_ns >= (kind == StepKind::kBackward ? kBackwardNs : kForwardNs));
      const auto [entry, is_first] = shortest_ns.emplace(kind, measured.time_ns);
      if (!is_first) entry->second = std::min(entry->second, measured.time_ns);
    }
  }
  // What else runs on the machine makes a step longer; the shortest is that of an idle one.
  CHECK(shortest_ns.at(StepKind::kCompute) < kForwardNs * 11 / 10);
  CHECK(shortest_ns.at(StepKind::kRecompute) < kForwardNs * 11 / 10);
  CHECK(shortest_ns.at(StepKind::kBackward) < kBackwardNs * 11 / 10);
}

TEST_CASE("a measured time of an op replaces the stated one") {
  const Graph graph = two_ops({.time_ns = 1, .measured_ns = kForwardNs}, {.time_ns = 1});
  const Schedule schedule = recomputing(graph);
  const std::unique_ptr<Device> device = make_cpu_device();
  Executor executor(graph, schedule, *device, {.optimizer = {.rule = SteppedBy::kSgd}});
  CHECK(executor.run_step().steps[0].time_ns >= kForwardNs);
}

TEST_CASE("no number depends on a stated time") {
  const Graph stated = two_ops({.time_ns = kForwardNs}, {.time_ns = kBackwardNs});
  const Graph unstated = two_ops({.flops = 8}, {.flops = 16});
  const std::unique_ptr<Device> device = make_cpu_device();
  const ExecutedSteps a = execute_two_steps(stated, recomputing(stated), *device);
  const ExecutedSteps b = execute_two_steps(unstated, recomputing(unstated), *device);
  CHECK(a.steps[1].loss == b.steps[1].loss);
  REQUIRE(!a.gradients[1].empty());
  CHECK(a.gradients == b.gradients);
}

TEST_CASE("asking kernels for their workspaces takes none of the stated time") {
  const auto begin = std::chrono::steady_clock::now();
  constexpr std::int64_t kMinuteNs = 60'000'000'000;
  with_executor_workspaces(two_ops({.time_ns = kMinuteNs}, {.time_ns = kMinuteNs}));
  CHECK(std::chrono::steady_clock::now() - begin < std::chrono::minutes(1));
}

}  // namespace
}  // namespace cairn
