// Planners by measured times: as good as the best of all plans at those times, whatever the graph
// states.

#include "graph/measured_costs.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "planner/plan_for_budget.h"
#include "tests/planner/brute_force.h"
#include "tests/planner/random_chain.h"
#include "tests/planner/region_trees.h"
#include "tests/seed.h"

namespace cairn {
namespace {

MeasuredCosts random_costs(const Graph& graph, Random& random) {
  MeasuredCosts costs;
  for (const Op& op : graph.ops) {
    const auto time = [&] {
      return MeasuredTime{.median_ns = static_cast<std::int64_t>(pick(random, 1000))};
    };
    costs.ops.push_back({.name = op.name, .forward = time(), .backward = time()});
  }
  return costs;
}

// The same graph, which states what was measured: what the oracle prices.
Graph stating(Graph graph, const MeasuredCosts& costs) {
  for (std::size_t i = 0; i < graph.ops.size(); ++i) {
    graph.ops[i].forward.time_ns = costs.ops[i].forward.median_ns;
    graph.ops[i].backward.time_ns = costs.ops[i].backward->median_ns;
  }
  return graph;
}

Graph measured(Graph graph, const MeasuredCosts& costs) {
  set_measured_times(graph, costs);
  return graph;
}

void check_every_budget(const Graph& graph, const std::vector<FrontierPoint>& best,
                        bool is_of_all_plans) {
  for (const FrontierPoint& point : best) {
    CAPTURE(point.peak_bytes);
    const PlanAnswer answer =
        plan_for_budget(graph, {.setting = {.extent = Extent::kNeeded}}, point.peak_bytes);
    REQUIRE(answer.unit == CostUnit::kNanoseconds);
    REQUIRE(answer.bound.extra_cost <= point.extra_cost);
    if (is_of_all_plans) continue;
    REQUIRE(answer.is_feasible);
    REQUIRE(answer.extra_cost <= point.extra_cost);
  }
}

TEST_CASE("measured times: auto is as cheap as the best of all region trees, at every budget") {
  INFO("--seed=", test_seed());
  Random random(test_seed());
  for (int i = 0; i < 20; ++i) {
    const Graph graph = test::chain_graph(test::random_layer_chain(2 + pick(random, 4), random));
    const MeasuredCosts costs = random_costs(graph, random);
    const std::vector<Plan> trees =
        test::region_tree_plans(graph, test::block_ranges(graph), Extent::kNeeded);
    check_every_budget(measured(graph, costs), test::brute_force(stating(graph, costs), trees),
                       false);
  }
}

TEST_CASE("measured times: no plan at all costs less than the bound") {
  INFO("--seed=", test_seed());
  Random random(test_seed());
  for (int i = 0; i < 10; ++i) {
    const Graph graph = test::chain_graph(test::random_layer_chain(2 + pick(random, 2), random));
    const MeasuredCosts costs = random_costs(graph, random);
    std::vector<Plan> plans;
    for (const Plan& tree :
         test::region_tree_plans(graph, test::block_ranges(graph), Extent::kNeeded)) {
      for (Plan& plan : test::with_keep_lists(graph, tree)) plans.push_back(std::move(plan));
    }
    check_every_budget(measured(graph, costs), test::brute_force(stating(graph, costs), plans),
                       true);
  }
}

TEST_CASE("blocks that are alike but for their measured times are no longer the same") {
  // Four equal layers, of which one is cheap: its bytes are the first to be made again.
  test::LayerChain chain{.input_bytes = 4};
  for (int i = 0; i < 4; ++i) {
    chain.layers.push_back({.output_bytes = 4, .auxiliary_bytes = 8, .forward_ns = 100});
  }
  chain.layers.push_back({.output_bytes = 1, .forward_ns = 1});
  const Graph graph = test::chain_graph(chain);
  for (std::size_t cheap = 0; cheap < 4; ++cheap) {
    MeasuredCosts costs;
    for (const Op& op : graph.ops) {
      const bool is_cheap = costs.ops.size() == cheap;
      costs.ops.push_back({.name = op.name,
                           .forward = {.median_ns = is_cheap ? 10 : 100},
                           .backward = MeasuredTime{.median_ns = 200}});
    }
    const Graph timed = measured(graph, costs);
    const std::vector<FrontierPoint> best = test::brute_force(
        stating(graph, costs),
        test::region_tree_plans(graph, test::block_ranges(graph), Extent::kNeeded));
    check_every_budget(timed, best, false);
    REQUIRE(best.size() > 1);
  }
}

}  // namespace
}  // namespace cairn
