#include "cli/measured_costs.h"

#include <doctest/doctest.h>

#include <string>

#include "graph/error.h"
#include "graph/graph_builder.h"
#include "graph/training_step.h"
#include "planner/planner.h"

namespace cairn {
namespace {

// x -> a -> b -> loss, each saving its input, with a weight in `a`.
Graph small_chain() {
  GraphBuilder builder("chain", DataType::kFloat32);
  const TensorId x = builder.add_input_bytes("x", 8, false);
  const TensorId w = builder.add_parameter_bytes("w", 8, true);
  const TensorId a = builder.add_custom(
      {.name = "a", .inputs = {x, w}, .outputs = {{.name = "h", .bytes = 8}}, .saved = {"x"}})[0];
  const TensorId b = builder.add_custom(
      {.name = "b", .inputs = {a}, .outputs = {{.name = "i", .bytes = 8}}, .saved = {"h"}})[0];
  return builder.build(builder.add_custom(
      {.name = "loss", .inputs = {b}, .outputs = {{.name = "l", .bytes = 8}}, .saved = {"i"}})[0]);
}

Schedule scheduled(const Graph& graph, const Plan& plan) {
  return lower_training_step(graph, {}, lower(graph, plan));
}

// Of each step that is no Free its `times_ns`, in order, and 7 ns between them.
ExecutedStep executed(const Schedule& schedule, const std::vector<std::int64_t>& times_ns) {
  ExecutedStep result{.time_ns = 7};
  std::size_t next = 0;
  for (std::size_t i = 0; i < schedule.steps.size(); ++i) {
    if (is_free(schedule.steps[i].kind)) continue;
    result.steps.push_back({.step = i, .time_ns = times_ns.at(next++)});
    result.time_ns += result.steps.back().time_ns;
  }
  REQUIRE(next == times_ns.size());
  return result;
}

TEST_CASE("the time is the median, the spread lies between the quartiles") {
  CHECK(measured_time({}) == MeasuredTime{});
  CHECK(measured_time({5}) == MeasuredTime{.median_ns = 5});
  CHECK(measured_time({9, 1, 2, 1000, 4}) == MeasuredTime{.median_ns = 4, .spread_ns = 7});
  CHECK(measured_time({10, 20}) == MeasuredTime{.median_ns = 15, .spread_ns = 5});
}

TEST_CASE("ops, the optimizer and what lies between are measured apart") {
  const Graph graph = small_chain();
  const Schedule schedule = scheduled(graph, keep_all_plan(graph));
  // C a, C b, C loss, B loss, B b, B a, O
  const MeasuredCosts costs = measured_costs(graph, schedule,
                                             {executed(schedule, {10, 20, 30, 40, 50, 60, 70}),
                                              executed(schedule, {12, 20, 30, 40, 50, 60, 75}),
                                              executed(schedule, {90, 20, 30, 40, 50, 60, 71})},
                                             "cpu");
  CHECK(costs.device == "cpu");
  CHECK(costs.step_count == 3);
  REQUIRE(costs.ops.size() == 3);
  CHECK(costs.ops[0].name == "a");
  CHECK(costs.ops[0].forward.median_ns == 12);
  REQUIRE(costs.ops[0].backward.has_value());
  CHECK(costs.ops[0].backward->median_ns == 60);
  CHECK(costs.optimizer.median_ns == 71);
  CHECK(costs.overhead == MeasuredTime{.median_ns = 7});
  CHECK(costs.step.median_ns == 294);  // of 287, 294 and 368
}

TEST_CASE("the predicted slowdown counts the optimizer and what lies between") {
  const Graph graph = small_chain();
  const Schedule keep_all = scheduled(graph, keep_all_plan(graph));
  Plan plan = keep_all_plan(graph);
  plan.regions = {{.begin = 0, .end = 2}};
  const Schedule schedule = scheduled(graph, plan);
  const MeasuredCosts costs =
      measured_costs(graph, keep_all, {executed(keep_all, {10, 20, 30, 40, 50, 60, 70})}, "cpu");
  // `a` is made again, 10 ns, of 280 + 7.
  CHECK(predicted_slowdown(graph, schedule, keep_all, costs) == doctest::Approx(10.0 / 287));
}

TEST_CASE("an op without a measured time is named") {
  Graph graph = small_chain();
  MeasuredCosts costs{.ops = {{.name = "a"}, {.name = "loss", .backward = MeasuredTime{}}}};
  CHECK_THROWS_WITH_AS(set_measured_times(graph, costs),
                       "expected a measured time of every op of the graph, found none of the "
                       "Backward of op 'a', op 'b'",
                       InputError);
}

TEST_CASE("measured times override stated ones, and the fingerprint has no part in them") {
  Graph graph = small_chain();
  graph.ops[0].forward.time_ns = 5;
  CHECK(known_time_ns(graph.ops[0].forward) == 5);
  graph.ops[0].forward.measured_ns = 8;
  CHECK(known_time_ns(graph.ops[0].forward) == 8);
}

}  // namespace
}  // namespace cairn
