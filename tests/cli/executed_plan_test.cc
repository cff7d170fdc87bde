#include "cli/executed_plan.h"

#include <doctest/doctest.h>

#include <cmath>
#include <filesystem>
#include <optional>
#include <set>
#include <string_view>

#include "graph/ops/op_kind.h"
#include "planner/plan_for_budget.h"
#include "sim/simulator.h"
#include "tests/executor/faulty_device.h"
#include "tests/executor/small_models.h"

namespace cairn {
namespace {

Evaluation kept(const Graph& graph, const Evaluation& evaluation) {
  return evaluate_plan(
      graph,
      {.algorithm = "none", .order = evaluation.plan.order, .extent = evaluation.plan.extent}, {});
}

Evaluation every_layer(const Graph& graph) {
  return evaluate(graph, {.algorithm = Algorithm::kEveryLayer}, {});
}

// What a simulation of `stated` says of a run of `graph`.
std::optional<BytesDifference> difference_from(const Graph& stated, const Graph& graph) {
  const std::unique_ptr<Device> device = make_cpu_device();
  const Evaluation evaluation = every_layer(graph);
  const Schedule& schedule = evaluation.schedule;
  return execute_plan({.graph = graph, .device = *device},
                      {.schedule = schedule,
                       .first = simulate_first_step(stated, schedule),
                       .later = simulate(stated, evaluation.plan, schedule).steps})
      .bytes_difference;
}

TEST_CASE("a wrong rule of the simulator shows in the first step that it is about") {
  const Graph graph = small_gpt(1).graph;
  CHECK(!difference_from(graph, graph));

  const auto op_named = [](Graph& of, const std::string& name) -> Op& {
    for (Op& op : of.ops) {
      if (op.name == name) return op;
    }
    throw std::logic_error(name);
  };
  SUBCASE("a tensor's bytes") {
    Graph stated = graph;
    const TensorId up = op_named(stated, "h.0.up").outputs[0];
    stated.storages[index(stated.tensor(up).storage)].bytes += 4;
    const auto difference = difference_from(stated, graph);
    REQUIRE(difference);
    CHECK(difference->training_step == 1);
    CHECK(difference->place == "forward of h.0.up");
    CHECK(difference->simulated_during_bytes == difference->measured_during_bytes + 4);
  }
  SUBCASE("a gradient's bytes") {
    Graph stated = graph;
    stated.tensors[index(op_named(stated, "h.0.up").outputs[0])].bytes *= 2;
    const auto difference = difference_from(stated, graph);
    REQUIRE(difference);
    CHECK(difference->place == "backward of h.0.act.gelu_new.cube");
  }
  SUBCASE("a workspace") {
    Graph stated = graph;
    op_named(stated, "norm").backward_workspace_bytes += 1;
    const auto difference = difference_from(stated, graph);
    REQUIRE(difference);
    CHECK(difference->place == "backward of norm");
  }
  SUBCASE("a gradient that is said to share the bytes of another") {
    Graph stated = graph;
    Op& down = op_named(stated, "h.0.down");
    down.gradient_aliases.assign(down.inputs.size(), false);
    down.gradient_aliases[0] = true;
    const auto difference = difference_from(stated, graph);
    REQUIRE(difference);
    CHECK(difference->place == "backward of h.0.down");
  }
  SUBCASE("states of the optimizer, from the first training step on") {
    Graph stated = graph;
    for (Tensor& tensor : stated.tensors) {
      if (tensor.name == "wte.weight") tensor.optimizer_state_bytes -= 8;
    }
    const auto difference = difference_from(stated, graph);
    REQUIRE(difference);
    CHECK(difference->training_step == 1);
    CHECK(difference->place == "optimizer step");
  }
}

TEST_CASE("the times of all op kinds are those of forward, recompute and backward") {
  const Graph graph = small_gpt(2).graph;
  const Evaluation evaluation = every_layer(graph);
  const std::unique_ptr<Device> device = make_cpu_device();
  const ExecutedPlan executed = execute_plan({.graph = graph, .device = *device, .step_count = 4},
                                             simulated_plan(graph, evaluation));
  std::set<std::string_view> kinds;
  for (const Op& op : graph.ops) kinds.insert(op.kind->name);
  std::set<std::string_view> found;
  OpKindTime sum;
  std::int64_t longest_ns = executed.step_ns;
  for (const OpKindTime& time : executed.op_kinds) {
    found.insert(time.op_kind);
    sum.forward_ns += time.forward_ns;
    sum.recompute_ns += time.recompute_ns;
    sum.backward_ns += time.backward_ns;
    CHECK(all_ns(time) <= longest_ns);
    longest_ns = all_ns(time);
  }
  CHECK(found == kinds);
  CHECK(executed.op_kinds.size() == kinds.size());
  CHECK(sum.forward_ns > 0);
  CHECK(sum.recompute_ns > 0);
  CHECK(sum.backward_ns > 0);
  CHECK(sum.forward_ns == executed.kind_ns[0]);
  CHECK(sum.recompute_ns == executed.kind_ns[1]);
  CHECK(sum.backward_ns == executed.kind_ns[2]);
}

TEST_CASE("memory that is lost on the way shows as a difference of gradients, or as NaN") {
  const Graph graph = small_gpt(1).graph;
  const Evaluation evaluation = every_layer(graph);
  const Evaluation reference = kept(graph, evaluation);
  FaultyDevice sound;
  const Execution on_sound{.graph = graph, .device = sound, .step_count = 1};
  const ExecutedPlan expected = execute_plan(on_sound, simulated_plan(graph, reference));
  const std::int64_t launch_count = sound.launch_count;
  int finite_count = 0;
  // Not the loading's: both runs would begin with other weights.
  for (std::int64_t launch = launch_count / 3; launch < launch_count; launch += 7) {
    CAPTURE(launch);
    FaultyDevice device;
    device.corrupting_launch = launch;
    const Execution execution{.graph = graph, .device = device, .step_count = 1};
    const ExecutedPlan executed = execute_plan(execution, simulated_plan(graph, evaluation));
    CHECK(!executed.bytes_difference);
    if (executed.gradients == expected.gradients) continue;  // nobody read it any more
    ++finite_count;
    device.launch_count = 0;
    const auto difference =
        gradient_difference(execution, evaluation.schedule, executed, reference.schedule, expected);
    REQUIRE(difference);
    CHECK(difference->training_step == 1);
    CHECK(std::isnan(difference->value));
    CHECK(!std::isnan(difference->reference_value));
  }
  CHECK(finite_count > 5);
}

TEST_CASE("a loss that is no number ends the run") {
  const Graph graph = small_gpt(1).graph;
  const std::unique_ptr<Device> device = make_cpu_device();
  const Execution execution{
      .graph = graph,
      .device = *device,
      .options = {.optimizer = {.rule = SteppedBy::kSgd, .learning_rate = 1e30}},
      .step_count = 5};
  const Evaluation evaluation = every_layer(graph);
  const ExecutedPlan executed = execute_plan(execution, simulated_plan(graph, evaluation));
  CHECK(!is_finite(executed));
  CHECK(executed.losses.size() == 2);
  CHECK(executed.gradients.size() == 2);
}

TEST_CASE("a small GPT learns a text, within the least memory bit by bit as with all of it") {
  const LoadedModel model = small_gpt(4);
  const Graph& graph = model.graph;
  const std::filesystem::path files = std::filesystem::path(CAIRN_SOURCE_DIR) / "tests/cli/files";
  const TextBatches text((files / "river.txt").string(), model);
  const PlanAnswer least = plan_for_budget(graph, {}, 1);  // within no budget: the smallest
  REQUIRE(!least.evaluation.plan.regions.empty());
  const std::unique_ptr<Device> device = make_cpu_device();
  const Execution execution{.graph = graph, .device = *device, .step_count = 200, .text = &text};
  const Evaluation reference = kept(graph, least.evaluation);
  const ExecutedPlan executed = execute_plan(execution, simulated_plan(graph, least.evaluation));
  const ExecutedPlan expected = execute_plan(execution, simulated_plan(graph, reference));
  CHECK(!executed.bytes_difference);
  CHECK(!expected.bytes_difference);
  CHECK(executed.measured_peak_bytes < expected.measured_peak_bytes);
  CHECK(executed.losses == expected.losses);
  CHECK(executed.gradients == expected.gradients);
  CHECK(executed.losses.front() > 5.0);  // log(256) is 5.5
  CHECK(executed.losses.back() < 3.5);
}

}  // namespace
}  // namespace cairn
