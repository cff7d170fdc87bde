#include "executor/executor.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <random>

#include "graph/graph_builder.h"
#include "planner/planner.h"
#include "sim/replay.h"
#include "sim/simulator.h"
#include "tests/executor/test_device.h"
#include "tests/seed.h"
#include "tests/sim/random_graph.h"
#include "tests/sim/text_schedule.h"

namespace cairn {
namespace {

using ParameterGradients = std::map<TensorId, std::vector<std::uint8_t>>;

struct Run {
  std::vector<ExecutedStep> steps = {};
  std::vector<ParameterGradients> gradients = {};
};

Run run(const Graph& graph, const Schedule& schedule, Device& device, std::int64_t step_count = 2) {
  Executor executor(graph, schedule, device,
                    {.optimizer = {.rule = SteppedBy::kSgd}, .poisons_freed = true});
  Run result;
  for (std::int64_t i = 0; i < step_count; ++i) {
    ParameterGradients gradients;
    result.steps.push_back(executor.run_step([&](const GradientSeen& seen) {
      std::vector<std::uint8_t>& bytes = gradients[seen.parameter];
      bytes.insert(bytes.end(), seen.bytes.begin(), seen.bytes.end());
    }));
    result.gradients.push_back(std::move(gradients));
  }
  return result;
}

Schedule scheduled(const Graph& graph, const Plan& plan) {
  return lower_training_step(graph, {}, lower(graph, plan));
}

// "" where every step's bytes are those of the simulator, else the first that differ.
std::string bytes_difference(const Graph& graph, const Schedule& schedule, const Trace& trace,
                             const ExecutedStep& executed) {
  if (trace.steps.size() != executed.steps.size()) return "the steps are not as many";
  for (std::size_t i = 0; i < trace.steps.size(); ++i) {
    const StepTrace& expected = trace.steps[i];
    const MeasuredStep& found = executed.steps[i];
    if (expected.during_bytes == found.during_bytes && expected.after_bytes == found.after_bytes) {
      continue;
    }
    return fmt::format("{}: simulated {}/{}, measured {}/{}",
                       step_text(graph, schedule.steps[expected.step]), expected.during_bytes,
                       expected.after_bytes, found.during_bytes, found.after_bytes);
  }
  return "";
}

// "" or the first gradient that differs.
std::string gradient_difference(const Graph& graph, const Run& a, const Run& b) {
  for (std::size_t step = 0; step < a.gradients.size(); ++step) {
    for (const auto& [id, bytes] : a.gradients[step]) {
      if (b.gradients[step].at(id) != bytes) {
        return fmt::format("step {}: the gradient of {}", step, graph.tensor(id).name);
      }
    }
  }
  return "";
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
    const Run planned = run(graph, schedule, *device);
    const Run kept = run(graph, scheduled(graph, keep_all), *device);
    INFO("\n", graph_text(graph), plan_text(graph, plan), schedule_text(graph, schedule));
    CHECK(bytes_difference(graph, schedule, simulate(graph, plan, schedule), planned.steps[1]) ==
          "");
    CHECK(planned.steps[1].loss == kept.steps[1].loss);
    CHECK(gradient_difference(graph, planned, kept) == "");
  }
}

}  // namespace
}  // namespace cairn
