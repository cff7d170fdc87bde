#include "export/export_plan.h"

#include <doctest/doctest.h>

#include "export/python_text.h"
#include "graph/error.h"
#include "models/load_model.h"

namespace cairn {
namespace {

LoadedModel llama() {
  return load_model({.model = "llama-3.2-1b", .tokens = 512, .set = {{"layers", "6"}}});
}

ExportAnswer exported(const LoadedModel& model, const std::string& target, Plan plan) {
  return export_plan(model.graph, find_export_target(target),
                     {.model = model.name,
                      .library = model.library,
                      .version = "1",
                      .setting = {.step = model.recipe.step},
                      .plan = std::move(plan)});
}

// One region for each of these runs of layers.
Plan runs(const Graph& graph, const std::vector<std::pair<std::size_t, std::size_t>>& spans) {
  const auto ranges = layer_ranges(graph);
  Plan plan = keep_all_plan(graph);
  plan.extent = Extent::kPrefix;
  for (const auto& [first, last] : spans) {
    plan.regions.push_back({.begin = ranges[first].first, .end = ranges[last].second});
  }
  return plan;
}

TEST_CASE("an exact plan is the plan, with the trainer's extent") {
  const LoadedModel model = llama();
  const Plan plan = runs(model.graph, {{0, 0}, {1, 1}});
  const ExportAnswer answer = exported(model, "megatron", plan);
  CHECK(answer.verdict == ExportVerdict::kExact);
  CHECK(answer.exported.evaluation.plan.extent == Extent::kWhole);
  Plan whole = plan;
  whole.extent = Extent::kWhole;
  CHECK(answer.exported.evaluation.trace.peak_bytes ==
        evaluate_plan(model.graph, whole, {.step = model.recipe.step}).trace.peak_bytes);
  CHECK(answer.layer_runs == std::vector<std::int64_t>{2, 2, 1, 1, 1, 1});
}

TEST_CASE("what cannot be told becomes the cheapest plan of no larger peak") {
  const LoadedModel model = llama();
  const ExportAnswer answer = exported(model, "megatron", runs(model.graph, {{2, 2}, {4, 4}}));
  CHECK(answer.verdict == ExportVerdict::kApproximated);
  const std::int64_t limit = answer.chosen.evaluation.trace.peak_bytes;
  CHECK(answer.limit_bytes == limit);
  CHECK(answer.exported.evaluation.trace.peak_bytes <= limit);
  // Of the plans that Megatron can be told, all that are cheaper peak higher.
  for (std::size_t n = 0; n < 6; ++n) {
    std::vector<std::pair<std::size_t, std::size_t>> first;
    for (std::size_t i = 0; i < n; ++i) first.emplace_back(i, i);
    Plan plan = runs(model.graph, first);
    plan.extent = Extent::kWhole;
    const Evaluation other = evaluate_plan(model.graph, plan, {.step = model.recipe.step});
    if (other.trace.recompute_flops >= answer.exported.evaluation.trace.recompute_flops) continue;
    CHECK(other.trace.peak_bytes > limit);
  }
}

TEST_CASE("where nothing that can be told is within the peak, it is refused, and the least named") {
  const LoadedModel model = llama();
  ExportAnswer answer = export_plan(model.graph, find_export_target("axolotl"),
                                    {.model = model.name,
                                     .library = "hf",
                                     .plan = runs(model.graph, {}),
                                     .budget_bytes = 1000,
                                     .is_best = true});
  CHECK(answer.verdict == ExportVerdict::kRefused);
  CHECK(answer.text.empty());
  CHECK(answer.exported.evaluation.trace.peak_bytes > 1000);
}

TEST_CASE("the best plan for a trainer costs no less than one without its limits") {
  const LoadedModel model =
      load_model({.model = "llama-3.2-1b", .batch = 4, .tokens = 1024, .set = {{"layers", "6"}}});
  const Plan plan = runs(model.graph, {{0, 0}, {1, 1}, {2, 2}, {3, 3}});
  for (const ExportTarget& target : export_targets()) {
    CAPTURE(target.name);
    const ExportAnswer answer = export_plan(model.graph, target,
                                            {.model = model.name,
                                             .library = "hf",
                                             .setting = {.step = model.recipe.step},
                                             .plan = plan,
                                             .is_best = true});
    CHECK(answer.verdict == ExportVerdict::kExact);
    CHECK(answer.exported.evaluation.trace.peak_bytes <= answer.limit_bytes);
    REQUIRE(answer.freest);
    CHECK(answer.freest->evaluation.trace.recompute_flops <=
          answer.exported.evaluation.trace.recompute_flops);
    CHECK(!answer.text.empty());
  }
}

TEST_CASE("a trainer of other code is refused by name") {
  const LoadedModel model = load_model({.model = "resnet-50"});
  CHECK_THROWS_WITH_AS(exported(model, "hf", keep_all_plan(model.graph)),
                       "hf: expected a model as library 'hf' runs it, found resnet-50 as "
                       "'torchvision' runs it",
                       InputError);
  CHECK_THROWS_WITH_AS(find_export_target("pytorhc"), doctest::Contains("did you mean 'pytorch'?"),
                       InputError);
}

TEST_CASE("traps are those of the plan") {
  const auto has = [](const ExportAnswer& answer, const std::string& part) {
    for (const std::string& trap : answer.traps) {
      if (trap.find(part) != std::string::npos) return true;
    }
    return false;
  };
  const LoadedModel gpt2 = load_model({.model = "gpt2", .tokens = 64, .set = {{"layers", "4"}}});
  CHECK(has(exported(gpt2, "pytorch", runs(gpt2.graph, {{0, 0}})), "dropout"));
  CHECK(!has(exported(gpt2, "pytorch", runs(gpt2.graph, {})), "dropout"));
  const LoadedModel frozen = load_model(
      {.model = "gpt2", .tokens = 64, .set = {{"layers", "4"}}, .freeze = {"wte", "wpe"}});
  CHECK(has(exported(frozen, "pytorch", runs(frozen.graph, {{0, 0}, {2, 2}})),
            "nothing that layer 0 is called with requires a gradient"));
  CHECK(!has(exported(frozen, "pytorch", runs(frozen.graph, {{2, 2}})), "requires a gradient"));
  const LoadedModel resnet = load_model({.model = "resnet-50"});
  CHECK(has(exported(resnet, "pytorch", runs(resnet.graph, {{0, 0}})), "batch norm"));
}

TEST_CASE("layers that trainers know by number alone are one list") {
  const LoadedModel resnet = load_model({.model = "resnet-50"});
  CHECK_THROWS_WITH_AS(exported(resnet, "torchtitan", runs(resnet.graph, {{0, 0}})),
                       doctest::Contains("expected a model whose layers are one list"), InputError);
  CHECK(exported(llama(), "torchtitan", runs(llama().graph, {{0, 0}})).verdict ==
        ExportVerdict::kExact);
}

TEST_CASE("a trainer with code of its own is said to have it, but not of that very code") {
  const auto says = [](const LoadedModel& model, const std::string& target) {
    for (const std::string& trap : exported(model, target, runs(model.graph, {})).traps) {
      if (trap.find("code of its own") != std::string::npos) return true;
    }
    return false;
  };
  const LoadedModel own = load_model(
      {.model = "llama-3.2-1b", .tokens = 64, .set = {{"layers", "2"}}, .library = "torchtitan"});
  CHECK(says(llama(), "torchtitan"));
  CHECK(!says(own, "torchtitan"));
  CHECK(says(own, "torchtune"));
  CHECK(!says(llama(), "fsdp"));
}

TEST_CASE("numbers as Python writes them") {
  CHECK(python_numbers({0, 1, 2}) == "range(3)");
  CHECK(python_numbers({2, 3, 4, 5}) == "range(2, 6)");
  CHECK(python_numbers({0, 2, 4}) == "range(0, 5, 2)");
  CHECK(python_numbers({0, 1, 2, 7}) == "[*range(3), 7]");
  CHECK(python_numbers({0, 3}) == "[0, 3]");
}

}  // namespace
}  // namespace cairn
