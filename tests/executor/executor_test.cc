#include <doctest/doctest.h>

#include <algorithm>
#include <random>

#include "graph/graph_builder.h"
#include "planner/planner.h"
#include "sim/simulator.h"
#include "tests/executor/executed_steps.h"
#include "tests/executor/test_device.h"
#include "tests/seed.h"
#include "tests/sim/random_graph.h"
#include "tests/sim/text_schedule.h"

namespace cairn {
namespace {

Schedule scheduled(const Graph& graph, const Plan& plan) {
  return lower_training_step(graph, {}, lower(graph, plan));
}

// A random graph's states and temporaries are no optimizer's.
Graph with_plain_sgd(Graph graph) {
  for (Tensor& tensor : graph.tensors) {
    tensor.master_weight_bytes = 0;
    tensor.optimizer_state_bytes = 0;
    tensor.optimizer_early_temporary_bytes = 0;
    tensor.optimizer_early_carried_bytes = 0;
    tensor.optimizer_temporary_bytes = 0;
    tensor.optimizer_carried_bytes = 0;
  }
  return graph;
}

// No gradient is written over what the Backward of another op still reads.
Graph without_overwritten_saves(Graph graph) {
  const auto readers = [&](StorageId storage) {
    return std::count_if(graph.ops.begin(), graph.ops.end(), [&](const Op& op) {
      return std::any_of(op.saved.begin(), op.saved.end(),
                         [&](TensorId saved) { return graph.tensor(saved).storage == storage; });
    });
  };
  for (Op& op : graph.ops) {
    for (TensorId& place : op.gradient_places) {
      if (place != kNoTensor && readers(graph.tensor(place).storage) > 1) place = kNoTensor;
    }
  }
  return graph;
}

TEST_CASE("random graphs: every byte is the simulator's, every gradient that of keep-all") {
  const std::unique_ptr<Device> device = make_test_device();
  const std::uint64_t seed = test_seed();
  for (std::uint64_t i = 0; i < 300; ++i) {
    Random random(seed + i);
    CAPTURE(seed + i);
    const Graph graph = without_overwritten_saves(with_plain_sgd(random_graph(random)));
    const Plan plan = random_plan(graph, Extent::kNeeded, random);
    // In the plan's order: floating-point sums depend on theirs.
    const Plan keep_all = {.order = plan.order, .extent = plan.extent};
    const Schedule schedule = scheduled(graph, plan);
    const ExecutedSteps planned = execute_two_steps(graph, schedule, *device);
    const ExecutedSteps kept = execute_two_steps(graph, scheduled(graph, keep_all), *device);
    INFO("\n", graph_text(graph), plan_text(graph, plan), schedule_text(graph, schedule));
    CHECK(bytes_difference(graph, schedule, simulate(graph, plan, schedule), planned.steps[1]) ==
          "");
    CHECK(planned.steps[1].loss == kept.steps[1].loss);
    CHECK(gradient_difference(graph, planned, kept) == "");
  }
}

}  // namespace
}  // namespace cairn
