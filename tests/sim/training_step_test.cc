// The training step around forward and backward: worked example X10 of docs/accounting.md, and what
// holds of every graph.

#include "graph/training_step.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>

#include "graph/evaluation_graph.h"
#include "graph/graph_builder.h"
#include "sim/replay.h"
#include "sim/simulator.h"
#include "sim/validator.h"
#include "tests/seed.h"
#include "tests/sim/random_graph.h"
#include "tests/sim/text_schedule.h"

namespace cairn {
namespace {

// x 4 -> f(x, w 6) = a 8 -> g(a, u 10) = y 8 -> loss 1; f saves x, g saves a, loss saves y. Two
// states a parameter; two temporaries, of which one is carried over.
Graph two_layers(const OptimizerRule& optimizer) {
  GraphBuilder builder("x10", DataType::kFloat32, optimizer);
  const TensorId x = builder.add_input_bytes("x", 4, false);
  const TensorId w = builder.add_parameter_bytes("w", 6, true);
  const TensorId u = builder.add_parameter_bytes("u", 10, true);
  const TensorId a =
      builder.add_custom({.name = "f", .inputs = {x, w}, .outputs = {{"a", 8}}, .saved = {"x"}})[0];
  const TensorId y =
      builder.add_custom({.name = "g", .inputs = {a, u}, .outputs = {{"y", 8}}, .saved = {"a"}})[0];
  return builder.build(builder.add_custom(
      {.name = "loss", .inputs = {y}, .outputs = {{"l", 1}}, .saved = {"y"}})[0]);
}

Graph two_layers(std::int64_t temporaries = 2) {
  return two_layers(like_parameters(
      {.state_count = 2, .temporary_count = temporaries, .carried_count = temporaries / 2}));
}

struct Run {
  Schedule schedule = {};
  Trace trace = {};
};

Run run(const Graph& graph, const Plan& plan, const TrainingStep& step) {
  Run result{.schedule = lower_training_step(graph, step, lower(graph, plan))};
  result.trace = simulate(graph, plan, result.schedule);
  const ValidationResult verdict = validate_training_step(graph, plan, step, result.schedule);
  INFO(graph_text(graph), plan_text(graph, plan), schedule_text(graph, result.schedule));
  REQUIRE_MESSAGE(verdict.fault == Fault::kNone, verdict.message);
  REQUIRE(verdict.peak_bytes == result.trace.peak_bytes);
  REQUIRE(verdict.peak_step == result.trace.steps[result.trace.peak_entry].step);
  std::int64_t listed_bytes = 0;
  for (const LiveItem& item : result.trace.live_at_peak) listed_bytes += item.bytes;
  REQUIRE(listed_bytes == result.trace.peak_bytes);
  return result;
}

std::string timeline(const Graph& graph, const TrainingStep& step) {
  const Run done = run(graph, keep_all_plan(graph), step);
  std::string text;
  for (const StepTrace& entry : done.trace.steps) {
    text += fmt::format("{}{} {}/{}", text.empty() ? "" : ", ",
                        step_text(graph, done.schedule.steps[entry.step]), entry.during_bytes,
                        entry.after_bytes);
  }
  return text;
}

std::string timeline(const TrainingStep& step, std::int64_t temporaries = 2) {
  return timeline(two_layers(temporaries), step);
}

std::string phases(const std::vector<PhasePeak>& peaks) {
  std::string text;
  for (const PhasePeak& peak : peaks) {
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", phase_name(peak.phase), peak.bytes);
  }
  return text;
}

TEST_CASE("X10: the optimizer steps behind backward, and gradients go") {
  CHECK(timeline({}, 0) ==
        "C f 60/60, C g 68/68, C loss 69/68, B loss 77/68, B g 86/70, B f 76/68, O 68/52");
  CHECK(timeline({.optimizer_loop = OptimizerLoop::kForLoop}) ==
        "C f 60/60, C g 68/68, C loss 69/68, B loss 77/68, B g 86/70, B f 76/68, O 94/52");
  CHECK(timeline({.optimizer_loop = OptimizerLoop::kForeach}) ==
        "C f 60/60, C g 68/68, C loss 69/68, B loss 77/68, B g 86/70, B f 76/68, O 100/52");
}

// Of a parameter's step: as many bytes as it has early, and thrice that later; early the next one
// still finds twice its own bytes. States are half of it.
OptimizerRule two_moments(bool makes_states_one_by_one) {
  return {.bytes_of =
              [](const SteppedParameter& parameter) {
                return OptimizerBytes{.state_bytes = parameter.bytes / 2,
                                      .early_temporary_bytes = parameter.bytes,
                                      .early_carried_bytes = 2 * parameter.bytes,
                                      .temporary_bytes = 3 * parameter.bytes};
              },
          .makes_states_one_by_one = makes_states_one_by_one};
}

TEST_CASE("states that come one by one meet temporaries of earlier parameters no sooner") {
  const Graph together = two_layers(two_moments(false));
  const Graph one_by_one = two_layers(two_moments(true));
  const ParameterGroup group = {
      .parameters = {together.ops[0].inputs[1], together.ops[1].inputs[1]}};
  // w 6, u 10: early 6, later 18; then 12 of w beside 10, later 30.
  CHECK(optimizer_workspace_bytes(together, group) == 30);
  CHECK(optimizer_workspace_bytes(together, group, true) == 30);
  CHECK(optimizer_workspace_bytes(one_by_one, group, true) == 30);
  const ParameterGroup turned = {.parameters = {group.parameters[1], group.parameters[0]}};
  // u first: later 30, and w's states, 3, are not there yet.
  Graph behind = one_by_one;
  behind.tensors[index(group.parameters[0])].optimizer_part = 1;
  behind.tensors[index(group.parameters[1])].optimizer_part = 0;
  CHECK(optimizer_workspace_bytes(behind, turned) == 30);
  CHECK(optimizer_workspace_bytes(behind, turned, true) == 30 - 3);
  // What is stepped first is what the parts say.
  const Schedule schedule = lower_training_step(behind, {}, lower(behind, keep_all_plan(behind)));
  CHECK(schedule.groups.back().parameters == turned.parameters);
  run(behind, keep_all_plan(behind), {});
}

TEST_CASE("what is left early of the parameter before is there early alone") {
  const Graph graph = two_layers({.bytes_of = [](const SteppedParameter& parameter) {
    return OptimizerBytes{.early_temporary_bytes = 2 * parameter.bytes,
                          .early_carried_bytes = 3 * parameter.bytes,
                          .temporary_bytes = 2 * parameter.bytes + 1};
  }});
  const ParameterGroup group = {.parameters = {graph.ops[0].inputs[1], graph.ops[1].inputs[1]}};
  CHECK(optimizer_workspace_bytes(graph, group) == 3 * 6 + 2 * 10);
  run(graph, keep_all_plan(graph), {});
}

TEST_CASE("X10: a later micro-batch finds gradients, and its contributions are tensors apart") {
  CHECK(timeline({.micro_batches = 3}, 0) ==
        "C f 60/60, C g 68/68, C loss 69/68, B loss 77/68, B g 86/70, B f 76/68, "
        "C f 76/76, C g 84/84, C loss 85/84, B loss 93/84, B g 102/76, B f 82/68, O 68/52");
}

TEST_CASE("X10: kept gradients are there from the start of every step but the first") {
  const TrainingStep step = {.keeps_gradients = true};
  CHECK(timeline(step, 0) ==
        "C f 76/76, C g 84/84, C loss 85/84, B loss 93/84, B g 102/76, B f 82/68, O 68/68");
  const Graph graph = two_layers(0);
  const Run done = run(graph, keep_all_plan(graph), step);
  CHECK(phases(done.trace.first_phases) == "forward 36, loss 37, backward 54, optimizer step 68");
  CHECK(phases(done.trace.phases) == "forward 84, loss 85, backward 102, optimizer step 68");
}

TEST_CASE("X10: an optimizer in backward frees each gradient behind its step") {
  CHECK(timeline({.optimizer_in_backward = true}, 0) ==
        "C f 60/60, C g 68/68, C loss 69/68, B loss 77/68, B g 86/70, O 70/60, B f 66/58, O 58/52");
  const Graph graph = two_layers(0);
  // The first step makes the states of u before B f runs, those of w behind it.
  const Run done = run(graph, keep_all_plan(graph), {.optimizer_in_backward = true});
  CHECK(phases(done.trace.first_phases) == "forward 36, loss 37, backward 54, optimizer step 58");
}

// The same in bf16, and main gradients in fp32.
OptimizerRule with_main_gradients() {
  OptimizerRule optimizer = like_parameters({.state_count = 2});
  optimizer.main_gradient_type = DataType::kFloat32;
  return optimizer;
}

Graph two_layers_in_bf16() {
  GraphBuilder builder("x10", DataType::kBFloat16, with_main_gradients());
  const TensorId x = builder.add_input_bytes("x", 4, false);
  const TensorId w = builder.add_parameter("w", DataType::kBFloat16, {3}, true);
  const TensorId u = builder.add_parameter("u", DataType::kBFloat16, {5}, true);
  const TensorId a =
      builder.add_custom({.name = "f", .inputs = {x, w}, .outputs = {{"a", 8}}, .saved = {"x"}})[0];
  const TensorId y =
      builder.add_custom({.name = "g", .inputs = {a, u}, .outputs = {{"y", 8}}, .saved = {"a"}})[0];
  return builder.build(builder.add_custom(
      {.name = "loss", .inputs = {y}, .outputs = {{"l", 1}}, .saved = {"y"}})[0]);
}

constexpr TrainingStep kMainGradients = {.main_gradient_type = DataType::kFloat32};

TEST_CASE(
    "X10: gradients go into main gradients, which stay, behind the Backward that makes them") {
  // x 4, w 6, u 10, states 32, main gradients 32: 84.
  const std::string pass =
      "C f 92/92, C g 100/100, C loss 101/100, B loss 109/100, B g 118/92, "
      "B f 98/84, ";
  const Graph graph = two_layers_in_bf16();
  CHECK(timeline(graph, kMainGradients) == pass + "O 84/84");
  TrainingStep several = kMainGradients;
  several.micro_batches = 3;  // none finds a gradient
  CHECK(timeline(graph, several) == pass + pass + "O 84/84");
  const Run done = run(graph, keep_all_plan(graph), kMainGradients);
  CHECK(done.trace.resident_bytes == 84);
  CHECK(phases(done.trace.first_phases) == "forward 68, loss 69, backward 86, optimizer step 84");
}

// f(x, w 6) = a, g(a, w) = y: w's gradient waits from B g to B f, where the second is added.
TEST_CASE("a gradient of several contributions goes into the main gradient when it is complete") {
  GraphBuilder builder("shared", DataType::kBFloat16, with_main_gradients());
  const TensorId x = builder.add_input_bytes("x", 4, false);
  const TensorId w = builder.add_parameter("w", DataType::kBFloat16, {3}, true);
  const TensorId a =
      builder.add_custom({.name = "f", .inputs = {x, w}, .outputs = {{"a", 8}}, .saved = {"x"}})[0];
  const TensorId y =
      builder.add_custom({.name = "g", .inputs = {a, w}, .outputs = {{"y", 8}}, .saved = {"a"}})[0];
  const Graph graph = builder.build(builder.add_custom(
      {.name = "loss", .inputs = {y}, .outputs = {{"l", 1}}, .saved = {"y"}})[0]);
  // x 4, w 6, states 12, main gradient 12: 34. Of B g 6 stay, and B f adds 6 to them.
  const std::string pass =
      "C f 42/42, C g 50/50, C loss 51/50, B loss 59/50, B g 64/48, B f 54/34, ";
  TrainingStep several = kMainGradients;
  several.micro_batches = 2;
  CHECK(timeline(graph, several) == pass + pass + "O 34/34");
}

// g(a, w 8) = y hands y's gradient to both.
TEST_CASE("a gradient that shares its storage is cloned on its way into the main gradient") {
  GraphBuilder builder("clone", DataType::kBFloat16, with_main_gradients());
  const TensorId x = builder.add_input_bytes("x", 4, false);
  const TensorId v = builder.add_parameter("v", DataType::kBFloat16, {1}, true);
  const TensorId w = builder.add_parameter("w", DataType::kBFloat16, {4}, true);
  const TensorId a =
      builder.add_custom({.name = "f", .inputs = {x, v}, .outputs = {{"a", 8}}, .saved = {"x"}})[0];
  const TensorId y = builder.add_custom(
      {.name = "g", .inputs = {a, w}, .outputs = {{"y", 8}}, .gradient_aliases = {"a", "w"}})[0];
  const Graph graph = builder.build(builder.add_custom(
      {.name = "loss", .inputs = {y}, .outputs = {{"l", 1}}, .saved = {"y"}})[0]);
  // x 4, v 2, w 8, states 20, main gradients 20: 54. B g: y's gradient, 62, and a copy behind it.
  CHECK(timeline(graph, kMainGradients) ==
        "C f 62/62, C g 70/62, C loss 63/62, B loss 71/62, B g 70/62, B f 64/54, O 54/54");
}

TEST_CASE("X10: the first step has no states until the optimizer makes them") {
  const Graph graph = two_layers(0);
  const Run done = run(graph, keep_all_plan(graph), {});
  CHECK(phases(done.trace.first_phases) == "forward 36, loss 37, backward 54, optimizer step 68");
  CHECK(phases(done.trace.phases) == "forward 68, loss 69, backward 86, optimizer step 68");
  CHECK(done.trace.resident_bytes == 52);
}

TEST_CASE("an evaluation has states and no gradient, and saves nothing") {
  const Graph graph = evaluation_graph(two_layers());
  const Plan plan = keep_all_plan(graph);
  const Trace trace = simulate(graph, plan, lower(graph, plan));
  CHECK(phases(trace.phases) == "forward 68, loss 61");  // resident 52; a and y, y and l
}

// Three passes without an optimizer.
TEST_CASE("a third micro-batch is like the second") {
  INFO("--seed=", test_seed());
  Random random(test_seed());
  for (int i = 0; i < 200; ++i) {
    const Graph graph = random_graph(random);
    const Plan plan = random_plan(graph, Extent::kPrefix, random);
    const Schedule pass = lower(graph, plan);
    Schedule three;
    for (int micro_batch = 0; micro_batch < 3; ++micro_batch) {
      three.steps.insert(three.steps.end(), pass.steps.begin(), pass.steps.end());
      for (std::size_t t = 0; t < graph.tensors.size(); ++t) {
        const bool is_input = graph.tensors[t].role == TensorRole::kInput;
        if (!is_input || !graph.tensors[t].has_gradient) continue;
        three.steps.push_back(
            {.kind = StepKind::kFreeGradient, .tensor = static_cast<TensorId>(t)});
      }
    }
    const Trace trace = simulate(graph, plan, three);
    const std::size_t third = trace.steps.size() / 3;
    INFO("graph ", i, "\n", graph_text(graph), plan_text(graph, plan));
    for (std::size_t entry = third; entry < 2 * third; ++entry) {
      INFO(step_text(graph, three.steps[trace.steps[entry].step]));
      REQUIRE(trace.steps[entry].during_bytes == trace.steps[entry + third].during_bytes);
    }
  }
}

bool has_parts(const Graph& graph) {
  return std::any_of(graph.tensors.begin(), graph.tensors.end(),
                     [](const Tensor& tensor) { return tensor.optimizer_part > 0; });
}

TEST_CASE("simulator and validator agree on random training steps") {
  INFO("--seed=", test_seed());
  Random random(test_seed());
  for (int i = 0; i < 1000; ++i) {
    const TrainingStep step = random_training_step(random);
    const Graph graph = with_main_gradients(random_graph(random), step);
    const Plan plan = random_plan(graph, Extent::kPrefix, random);
    const Run done = run(graph, plan, step);
    // Before the optimizer's first step there is just no state.
    const std::int64_t states = optimizer_state_bytes(graph);
    for (std::size_t p = 0; p < done.trace.phases.size(); ++p) {
      const PhasePeak& first = done.trace.first_phases[p];
      const PhasePeak& later = done.trace.phases[p];
      REQUIRE(first.bytes <= later.bytes);
      const bool starts_alike = !step.keeps_gradients && !step.optimizer_in_backward;
      if (!starts_alike || done.schedule.groups.empty()) continue;
      const std::int64_t missing = later.bytes - first.bytes;
      if (first.phase != Phase::kOptimizer) {
        REQUIRE(missing == states);
      } else {  // states of later parts may be missing beside temporaries of earlier ones
        REQUIRE(missing >= 0);
        REQUIRE(missing <= (has_parts(graph) ? states : 0));
      }
    }
  }
}

}  // namespace
}  // namespace cairn
