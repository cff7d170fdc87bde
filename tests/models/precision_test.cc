// Bytes a parameter of each precision, and what autocast's cache holds, of a real model.

#include <doctest/doctest.h>

#include <algorithm>

#include "graph/error.h"
#include "graph/schedule.h"
#include "models/load_model.h"
#include "planner/planner.h"

namespace cairn {
namespace {

// Llama-3.2-1B: tied words of 128256 * 2048, 16 layers of norms 2 * 2048, and a last norm.
constexpr std::int64_t kParameters = 1'235'814'400;
constexpr std::int64_t kNorms = 16 * 2 * 2048 + 2048;

LoadedModel loaded(std::string_view precision, OptimizerLoop loop = OptimizerLoop::kFused) {
  return load_model({.model = "llama-3.2-1b",
                     .tokens = 64,
                     .precision = find_precision(precision),
                     .step = {.optimizer_loop = loop}});
}

// Copies of weights that autocast makes.
std::vector<TensorId> weight_copies(const Graph& graph) {
  std::vector<TensorId> copies;
  for (const Op& op : graph.ops) {
    if (op.kind->name == "cast" && graph.tensor(op.inputs[0]).role == TensorRole::kParameter) {
      copies.push_back(op.outputs[0]);
    }
  }
  return copies;
}

}  // namespace

TEST_CASE(
    "AdamW under autocast has 16 bytes a parameter, 4 + 4 + 8, and 2 more of weights' copies") {
  const Graph graph = loaded("autocast-bf16").graph;
  CHECK(parameter_bytes(graph) == 4 * kParameters);
  CHECK(gradient_bytes(graph) == 4 * kParameters);
  CHECK(optimizer_state_bytes(graph) == 8 * kParameters);
  CHECK(master_weight_bytes(graph) == 0);
  std::int64_t copied = 0;
  for (const TensorId copy : weight_copies(graph)) copied += graph.tensor(copy).bytes;
  CHECK(copied == 2 * (kParameters - kNorms));  // the words once, for the head
}

TEST_CASE("AdamW with master weights has 16 bytes a parameter too, 2 + 2 + 4 + 8") {
  const Graph graph = loaded("bf16-master").graph;
  CHECK(parameter_bytes(graph) == 2 * kParameters);
  CHECK(gradient_bytes(graph) == 2 * kParameters);
  CHECK(master_weight_bytes(graph) == 4 * kParameters);
  CHECK(optimizer_state_bytes(graph) == 8 * kParameters);
  CHECK(weight_copies(graph).empty());
}

TEST_CASE("with every layer checkpointed, all copies of weights are there when forward ends") {
  const Graph graph = loaded("autocast-bf16").graph;
  const Plan plan = make_plan(graph, parse_strategy("every-layer"), Extent::kPrefix);
  const Schedule schedule = lower(graph, plan);
  const auto loss =
      std::find_if(schedule.steps.begin(), schedule.steps.end(), [&](const Step& step) {
        return step.kind == StepKind::kCompute && step.op == graph.tensor(graph.loss).producer;
      });
  REQUIRE(loss != schedule.steps.end());
  for (const TensorId copy : weight_copies(graph)) {
    const auto is_free = [&](const Step& step) {
      return step.kind == StepKind::kFree && step.tensor == copy;
    };
    CHECK(std::none_of(schedule.steps.begin(), loss, is_free));
    // Of a layer it is dropped then, and made again by the layer's recompute.
    const bool is_of_layer = graph.op(graph.tensor(copy).producer).block >= 0;
    CHECK(std::count_if(loss, schedule.steps.end(), is_free) == (is_of_layer ? 2 : 1));
  }
}

TEST_CASE("master weights are stepped by one kernel: another loop is refused") {
  CHECK_THROWS_WITH_AS(loaded("bf16-master", OptimizerLoop::kForeach),
                       "--optimizer-loop foreach: an optimizer with master weights is counted as "
                       "one kernel, which reads gradients of bf16; expected fused",
                       InputError);
  CHECK_NOTHROW(loaded("autocast-bf16", OptimizerLoop::kForeach));
}

}  // namespace cairn
