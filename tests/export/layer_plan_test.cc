#include "export/layer_plan.h"

#include <doctest/doctest.h>

#include "export/kept_kernels.h"
#include "export/plan_forms.h"
#include "models/load_model.h"
#include "planner/evaluation.h"
#include "planner/planner.h"

namespace cairn {
namespace {

LoadedModel gpt2(const std::string& layers = "6") {
  return load_model({.model = "gpt2", .tokens = 64, .set = {{"layers", layers}}});
}

// One region for each of these layers.
LayerPlan layers_plan(const Graph& graph, const std::vector<std::size_t>& numbers) {
  Plan plan = keep_all_plan(graph);
  for (const std::size_t number : numbers) {
    const auto [begin, end] = layer_ranges(graph).at(number);
    plan.regions.push_back({.begin = begin, .end = end});
  }
  return layer_plan(graph, plan);
}

TensorId tensor_named(const Graph& graph, const std::string& name) {
  for (std::size_t i = 0; i < graph.tensors.size(); ++i) {
    if (graph.tensors[i].name == name) return static_cast<TensorId>(i);
  }
  FAIL("no tensor " << name);
  return kNoTensor;
}

TEST_CASE("layers have the paths of their modules") {
  const LoadedModel model = gpt2("2");
  const std::vector<ModelLayer> layers = model_layers(model.graph);
  REQUIRE(layers.size() == 2);
  CHECK(layers[1].path == "transformer.h.1");
  CHECK(layers[1].list == "transformer.h");
  CHECK(layers[1].number == 1);
  CHECK(layers[1].is_module);
}

TEST_CASE("a plan of layers goes there and back") {
  const LoadedModel model = gpt2();
  for (const char* const strategy : {"none", "every-layer", "uniform:2", "sqrt"}) {
    const Plan plan = make_plan(model.graph, parse_strategy(strategy), Extent::kPrefix);
    const Plan back = plan_of(model.graph, layer_plan(model.graph, plan));
    CHECK(is_same_plan(plan, back));
  }
}

TEST_CASE("each kind of plan is known, with its numbers") {
  const LoadedModel model = gpt2();
  const Graph& graph = model.graph;
  CHECK(plan_form(layers_plan(graph, {})).kind == PlanKind::kNone);
  CHECK(plan_form(layers_plan(graph, {0, 1, 2, 3, 4, 5})).kind == PlanKind::kAll);
  const PlanForm odd = plan_form(layers_plan(graph, {1, 3, 5}));
  CHECK(odd.kind == PlanKind::kEveryKth);
  CHECK(odd.step == 2);
  CHECK(odd.first == 1);
  CHECK(every_kth(layers_plan(graph, {1, 3, 5}), EveryKth::kFromKth) == 2);
  CHECK(!every_kth(layers_plan(graph, {1, 3, 5}), EveryKth::kFromFirst));
  CHECK(every_kth(layers_plan(graph, {0, 3}), EveryKth::kFromFirst) == 3);
  CHECK(plan_form(layers_plan(graph, {0, 1})).kind == PlanKind::kFirst);
  CHECK(first_layers(layers_plan(graph, {0, 1})) == 2);
  CHECK(!first_layers(layers_plan(graph, {0, 2})));
  CHECK(plan_form(layers_plan(graph, {0, 1, 4})).kind == PlanKind::kSet);
  CHECK(layer_plan_words(layers_plan(graph, {0, 1, 4})) == "layers 0-1, 4 of 6");
}

TEST_CASE("runs are equal when the last alone is shorter") {
  const LoadedModel model = gpt2("5");
  const Graph& graph = model.graph;
  const auto runs = [&](std::vector<std::pair<std::size_t, std::size_t>> spans) {
    const auto ranges = layer_ranges(graph);
    Plan plan = keep_all_plan(graph);
    for (const auto& [first, last] : spans) {
      plan.regions.push_back({.begin = ranges[first].first, .end = ranges[last].second});
    }
    return layer_plan(graph, plan);
  };
  CHECK(equal_runs(runs({{0, 1}, {2, 3}, {4, 4}})) == 2);
  CHECK(!equal_runs(runs({{0, 0}, {1, 2}, {3, 4}})));
  CHECK(!equal_runs(runs({{0, 1}, {2, 3}})));
  CHECK(plan_form(runs({{0, 1}, {2, 3}})).kind == PlanKind::kRuns);
}

TEST_CASE("frozen layers are in any set: they are not run again") {
  const LoadedModel model = load_model({.model = "gpt2",
                                        .tokens = 64,
                                        .set = {{"layers", "4"}},
                                        .freeze = {"wte", "wpe", "h.0", "h.1"}});
  const LayerPlan some = layers_plan(model.graph, {2});
  CHECK(!some.layers[1].has_backward);
  CHECK(some.layers[2].has_backward);
  CHECK(first_layers(some) == 3);
  CHECK(every_kth(some, EveryKth::kFromFirst) == 2);
}

TEST_CASE("a part of a layer is the modules that it holds") {
  const LoadedModel model = gpt2("2");
  const Graph& graph = model.graph;
  const auto op_named = [&](const std::string& name) {
    for (std::size_t i = 0; i < graph.ops.size(); ++i) {
      if (graph.ops[i].name == name) return static_cast<std::int32_t>(i);
    }
    FAIL("no op " << name);
    return std::int32_t{0};
  };
  const auto region = [&](const std::string& first, const std::string& last) {
    Plan plan = keep_all_plan(graph);
    plan.regions.push_back({.begin = op_named(first), .end = op_named(last) + 1});
    return layer_plan(graph, plan).regions.at(0);
  };
  using Paths = std::vector<std::string>;
  CHECK(region("h.0.norm2", "h.0.x").modules ==
        Paths{"transformer.h.0.ln_2", "transformer.h.0.mlp"});
  CHECK(region("h.1.up", "h.1.mlp_drop").modules == Paths{"transformer.h.1.mlp"});
  // Across the sum of a layer and its input there is no run: two things are handed on.
  CHECK(region("h.0.up", "h.1.mlp_drop").modules.empty());
}

TEST_CASE("products and fused attention can be kept, a norm's statistics cannot") {
  const LoadedModel model = gpt2("2");
  const Graph& graph = model.graph;
  const auto kernel = kernel_of(graph, tensor_named(graph, "h.0.qkv"));
  REQUIRE(kernel);
  CHECK(kernel->module == "transformer.h.0.attn.c_attn");
  CHECK(kernel->kind == KernelKind::kProduct);
  CHECK(!kernel_of(graph, tensor_named(graph, "h.0.norm1")));
  CHECK(!kept_kernels(graph, {tensor_named(graph, "h.0.norm1")}));
  CHECK(kept_kernels(graph, {tensor_named(graph, "h.0.up")})->size() == 1);
}

}  // namespace
}  // namespace cairn
