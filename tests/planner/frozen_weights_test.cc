// Planners where most weights are frozen: adapters, quantised weights, whole layers.

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "models/load_model.h"
#include "planner/chain_plan.h"
#include "planner/plan_for_budget.h"
#include "sim/simulator.h"
#include "sim/validator.h"
#include "tests/models/small_llama.h"
#include "tests/planner/brute_force.h"
#include "tests/planner/region_trees.h"

namespace cairn {
namespace {

ModelRequest small_request(std::int64_t layers) {
  ModelRequest request = test::small_llama(layers);
  request.batch = 4;
  request.tokens = 32;
  return request;
}

struct FrozenModel {
  std::string name = {};
  Graph graph = {};
};

// Each way to train, as it is with checkpoints, and a few as they are without.
std::vector<FrozenModel> frozen_models(std::int64_t layers) {
  std::vector<FrozenModel> models;
  const auto add = [&](const std::string& name, ModelRequest request, bool is_checkpointed = true) {
    request.is_checkpointed = is_checkpointed;
    models.push_back({name, load_model(request).graph});
  };
  ModelRequest lora = small_request(layers);
  lora.adapters = Adapters{.rank = 4};
  add("LoRA", lora);
  add("LoRA, no gradient of embeddings", lora, false);
  lora.adapters->targets = {"all-linear"};
  lora.adapters->dropout = 0.05;
  add("LoRA of all with dropout", lora);
  ModelRequest qlora = lora;
  qlora.quantization = Quantization{.is_double = true};
  add("QLoRA", qlora);
  ModelRequest late = lora;
  late.adapters->targets = {"model.layers." + std::to_string(layers - 1)};
  add("LoRA of the last layer", late);
  add("LoRA of the last layer, no gradient of embeddings", late, false);
  ModelRequest dora = lora;
  dora.adapters = Adapters{.rank = 4, .has_magnitudes = true};
  add("DoRA", dora);
  ModelRequest frozen = small_request(layers);
  frozen.freeze = {"model.embed_tokens", "model.layers.0"};
  add("the first layer frozen", frozen, false);
  return models;
}

std::int64_t validated_peak(const Graph& graph, const Evaluation& evaluation) {
  const ValidationResult verdict =
      validate_training_step(graph, evaluation.plan, {}, evaluation.schedule);
  REQUIRE_MESSAGE(verdict.fault == Fault::kNone, verdict.message);
  REQUIRE(verdict.peak_bytes == evaluation.trace.peak_bytes);
  return verdict.peak_bytes;
}

bool has_backward(const Graph& graph, const Region& region) {
  return std::any_of(graph.ops.begin() + region.begin, graph.ops.begin() + region.end,
                     [](const Op& op) { return op.has_backward; });
}

std::vector<std::int64_t> budgets_between(std::int64_t least_bytes, std::int64_t most_bytes) {
  return {least_bytes - 1, least_bytes + (most_bytes - least_bytes) / 2, most_bytes};
}

// The plan is valid, within its budget, no dearer than with less, and not below the bound.
void check_planner(const FrozenModel& model, const PlanRequest& request) {
  CAPTURE(model.name);
  CAPTURE(strategy_name(request.strategy));
  CAPTURE(extent_name(request.setting.extent));
  const std::int64_t keep_all_bytes = evaluate(model.graph, {}, request.setting).trace.peak_bytes;
  const PlanAnswer smallest = plan_for_budget(model.graph, request, 0);
  std::int64_t last_cost = INT64_MAX;
  for (const std::int64_t budget_bytes :
       budgets_between(smallest.evaluation.trace.peak_bytes, keep_all_bytes)) {
    CAPTURE(budget_bytes);
    const PlanAnswer answer = plan_for_budget(model.graph, request, budget_bytes);
    const std::int64_t peak_bytes = validated_peak(model.graph, answer.evaluation);
    REQUIRE(answer.is_feasible == (peak_bytes <= budget_bytes));
    for (const Region& region : answer.evaluation.plan.regions) {
      CHECK(has_backward(model.graph, region));
    }
    if (!answer.is_feasible) continue;
    CHECK(answer.extra_cost <= last_cost);
    CHECK(answer.bound.extra_cost <= answer.extra_cost);
    last_cost = answer.extra_cost;
  }
}

}  // namespace

TEST_CASE("frozen weights: every planner's plans are valid, within budget and above the bound") {
  for (const FrozenModel& model : frozen_models(2)) {
    for (const std::string& name : algorithm_names()) {
      const Strategy strategy = parse_algorithm(name.ends_with(":K") ? "uniform:2" : name);
      check_planner(model, {.strategy = strategy, .setting = {.extent = Extent::kPrefix}});
      if (strategy.algorithm != Algorithm::kAuto) continue;
      check_planner(model, {.strategy = strategy, .setting = {.extent = Extent::kNeeded}});
    }
  }
}

TEST_CASE("frozen weights: for Transformers the planner finds the best set of whole layers") {
  constexpr std::size_t kLayers = 4;
  for (const FrozenModel& model : frozen_models(kLayers)) {
    CAPTURE(model.name);
    const PlanRequest request = {.setting = {.extent = Extent::kPrefix}, .target = Target::kHf};
    std::vector<Plan> plans;
    const auto layers = layer_ranges(model.graph);
    REQUIRE(layers.size() == kLayers);
    for (std::size_t set = 0; set < (std::size_t{1} << kLayers); ++set) {
      Plan plan = keep_all_plan(model.graph);
      plan.extent = Extent::kPrefix;
      for (std::size_t i = 0; i < kLayers; ++i) {
        if ((set >> i & 1U) == 0) continue;
        plan.regions.push_back({.begin = layers[i].first, .end = layers[i].second});
      }
      plans.push_back(std::move(plan));
    }
    for (const FrontierPoint& best : test::brute_force(model.graph, plans)) {
      CAPTURE(best.peak_bytes);
      const PlanAnswer answer = plan_for_budget(model.graph, request, best.peak_bytes);
      REQUIRE(answer.is_feasible);
      CHECK(answer.extra_cost == best.extra_cost);
      CHECK_FALSE(plan_for_budget(model.graph, request, plans.empty() ? 0 : best.peak_bytes)
                      .evaluation.trace.peak_bytes > best.peak_bytes);
    }
  }
}

// A miss: of LoRA and DoRA the smallest peak is that of one region, which the chain's numbers take
// for 12 KiB larger; the plan that is found for it costs twice as much.
TEST_CASE("frozen weights: no tree of regions over layers beats the best plan, but for a miss") {
  int missed_count = 0;
  for (const FrozenModel& model : frozen_models(3)) {
    CAPTURE(model.name);
    const PlanRequest request = {.strategy = {.algorithm = Algorithm::kAuto},
                                 .setting = {.extent = Extent::kPrefix}};
    std::vector<std::pair<std::int32_t, std::int32_t>> pieces = layer_ranges(model.graph);
    pieces.emplace_back(pieces.back().second, static_cast<std::int32_t>(model.graph.ops.size()));
    const std::vector<Plan> trees = test::region_tree_plans(model.graph, pieces, Extent::kPrefix);
    for (const FrontierPoint& best : test::brute_force(model.graph, trees)) {
      CAPTURE(best.peak_bytes);
      const PlanAnswer answer = plan_for_budget(model.graph, request, best.peak_bytes);
      CAPTURE(answer.evaluation.trace.peak_bytes);
      REQUIRE(answer.is_feasible);
      CHECK(answer.bound.extra_cost <= answer.extra_cost);
      if (answer.extra_cost <= best.extra_cost) continue;
      CHECK((model.name == "LoRA" || model.name == "DoRA"));
      ++missed_count;
    }
  }
  CHECK(missed_count == 2);
}

// A miss: what frozen layers hand on has no gradient. Several blocks read it and may hold it, and
// it is counted with one of them: such plans peak above their numbers, which the search then
// rejects.
bool hands_on_without_gradient(const FrozenModel& model) {
  return std::none_of(model.graph.ops.begin(), model.graph.ops.end(),
                      [](const Op& op) { return op.name.ends_with(".requires_grad"); });
}

TEST_CASE("frozen weights: plans peak where their chain's numbers say, and cost what they say") {
  for (const FrozenModel& model : frozen_models(4)) {
    for (const Extent extent : {Extent::kNeeded, Extent::kPrefix}) {
      CAPTURE(model.name);
      CAPTURE(extent_name(extent));
      const PlanRequest request = {.strategy = {.algorithm = Algorithm::kChain},
                                   .setting = {.extent = extent}};
      const ChainPlans plans(model.graph, request);
      const PlanList list = plans.list();
      PlanTrials trials(model.graph, request.setting, plans.problem().costs);
      constexpr std::size_t kTried = 12;
      std::size_t tried_count = 0;
      std::size_t exact_count = 0;
      for (std::size_t i = 0; i < list.expected.size(); i += list.expected.size() / kTried + 1) {
        const TriedPlan tried = trials.try_plan(list.plan_of(i));
        const ExpectedPlan& expected = list.expected[i];
        CHECK(tried.extra_cost <= expected.extra_cost);
        if (!hands_on_without_gradient(model)) {
          CHECK(tried.extra_cost == expected.extra_cost);
          CHECK(tried.peak_bytes <= expected.need_bytes);
        }
        ++tried_count;
        if (tried.peak_bytes == list.expected[i].need_bytes) ++exact_count;
      }
      CHECK(tried_count > 0);
      CAPTURE(tried_count);
      CAPTURE(exact_count);
      if (!hands_on_without_gradient(model)) CHECK(exact_count * 4 >= tried_count * 3);
    }
  }
}

}  // namespace cairn
