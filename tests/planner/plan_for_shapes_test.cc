#include "planner/plan_for_shapes.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "graph/error.h"
#include "models/load_model.h"

namespace cairn {
namespace {

// gpt2 with four layers, in FLOPs.
Graph shaped(std::int64_t batch, std::int64_t tokens) {
  return load_model({.model = "gpt2", .batch = batch, .tokens = tokens, .set = {{"layers", "4"}}})
      .graph;
}

std::int64_t peak(const Graph& graph, const Strategy& strategy) {
  return evaluate(graph, strategy, {.extent = Extent::kNeeded}).trace.peak_bytes;
}

PlanRequest request() {
  PlanRequest made;
  made.setting.extent = Extent::kNeeded;
  return made;
}

TEST_CASE("one shape is planned as it is alone") {
  const std::vector<Graph> graphs = {shaped(8, 512)};
  const std::int64_t budget = peak(graphs[0], {}) * 9 / 10;
  const PlanAnswer alone = plan_for_budget(graphs[0], request(), budget);
  const ShapesAnswer found = plan_for_shapes(graphs, {2.5}, request(), budget);
  CHECK(found.answer.is_feasible);
  CHECK(found.answer.extra_cost == alone.extra_cost);
  CHECK(found.evaluations.size() == 1);
}

TEST_CASE("the plan is within the budget for each shape, though only one needs it") {
  const std::vector<Graph> graphs = {shaped(1, 128), shaped(8, 1024)};
  const std::int64_t budget = peak(graphs[1], {}) * 8 / 10;
  REQUIRE(peak(graphs[0], {}) < budget);
  const ShapesAnswer found = plan_for_shapes(graphs, {1, 1}, request(), budget);
  REQUIRE(found.answer.is_feasible);
  CHECK(found.largest == 1);
  for (const Evaluation& evaluation : found.evaluations) {
    CHECK(evaluation.trace.peak_bytes <= budget);
    CHECK(is_same_plan(evaluation.plan, found.answer.evaluation.plan));
  }
  // The mean: each shape counts by its weight.
  const CostUnit unit = found.answer.unit;
  const std::int64_t sum =
      extra_cost(found.evaluations[0], unit) + extra_cost(found.evaluations[1], unit);
  CHECK(found.answer.extra_cost == (sum + 1) / 2);
  CHECK(found.answer.bound.extra_cost <= found.answer.extra_cost);
}

TEST_CASE("where no plan holds for all shapes, that with the least of the largest peaks") {
  const std::vector<Graph> graphs = {shaped(1, 128), shaped(8, 1024)};
  const ShapesAnswer found = plan_for_shapes(graphs, {1, 1}, request(), 1);
  CHECK(!found.answer.is_feasible);
  const PlanAnswer alone = plan_for_budget(graphs[1], request(), 1);
  CHECK(found.answer.evaluation.trace.peak_bytes == alone.evaluation.trace.peak_bytes);
}

TEST_CASE("shapes of other ops are refused") {
  const std::vector<Graph> graphs = {shaped(1, 128),
                                     load_model({.model = "bert-base-uncased"}).graph};
  CHECK_THROWS_AS(plan_for_shapes(graphs, {1, 1}, request(), 1), InputError);
}

}  // namespace
}  // namespace cairn
