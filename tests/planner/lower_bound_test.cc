#include "planner/lower_bound.h"

#include <doctest/doctest.h>

#include "graph/error.h"
#include "graph/min_cut.h"
#include "planner/budget_search.h"
#include "planner/chain_from_graph.h"
#include "tests/planner/random_chain.h"
#include "tests/seed.h"
#include "tests/sim/random_graph.h"
#include "tests/sim/text_schedule.h"

namespace cairn {
namespace {

TEST_CASE("a least cut, by hand") {
  // 0 -> 2 -> 1 with 3 and 5, 0 -> 3 -> 1 with 7 and 2, 2 -> 3 with 1: 3 + 2 are the least.
  const std::vector<CutEdge> edges = {{0, 2, 3}, {2, 1, 5}, {0, 3, 7}, {3, 1, 2}, {2, 3, 1}};
  const MinCut cut = min_cut(4, edges, 0, 1);
  CHECK(cut.capacity == 5);
  CHECK(cut.is_on_source_side == std::vector<bool>{true, false, false, true});
}

// Regions over the graph's own order, up to three deep; keep lists that are useless are no plan.
std::vector<Region> random_regions(std::int32_t begin, std::int32_t end, int depth,
                                   Random& random) {
  std::vector<Region> regions;
  while (begin < end) {
    const auto length =
        static_cast<std::int32_t>(1 + pick(random, static_cast<std::size_t>(end - begin)));
    if (!one_in(random, 3)) {
      Region region{.begin = begin, .end = begin + length};
      if (depth > 1) region.inner = random_regions(begin, begin + length, depth - 1, random);
      regions.push_back(std::move(region));
    }
    begin += length;
  }
  return regions;
}

std::optional<Plan> random_plan_in_order(const Graph& graph, Random& random) {
  Plan plan = keep_all_plan(graph);
  plan.extent = Extent::kNeeded;
  plan.regions = random_regions(0, static_cast<std::int32_t>(graph.ops.size()), 3, random);
  for (Region& region : plan.regions) {
    const auto at = static_cast<std::size_t>(region.begin) +
                    pick(random, static_cast<std::size_t>(region.end - region.begin));
    const Op& op = graph.ops[at];
    if (one_in(random, 2)) region.keep = {op.outputs[pick(random, op.outputs.size())]};
  }
  try {
    lower(graph, plan);
  } catch (const InputError&) {
    return std::nullopt;
  }
  return plan;
}

// Checks random plans of the graph; returns for how many the bound is above nothing.
int check_bounds(const Graph& made, const TrainingStep& step, Random& random) {
  const Graph graph = with_main_gradients(made, step);
  const OpCosts costs = op_costs(graph, nullptr);
  const Setting setting{.extent = Extent::kNeeded, .step = step};
  const std::vector<Block> blocks = chain_blocks(graph);
  const Chain chain = chain_from_graph(graph, blocks, setting, costs);
  const LowerBounds bounds(graph, blocks, chain, costs);
  PlanTrials trials(graph, setting, costs);
  int bounded_count = 0;
  for (int i = 0; i < 10; ++i) {
    const std::optional<Plan> plan = random_plan_in_order(graph, random);
    if (!plan) continue;
    const TriedPlan tried = trials.try_plan(*plan);
    const CostBound bound = bounds.at(tried.peak_bytes);
    const std::int64_t least_cost = bound.extra_cost * step.micro_batches;
    bounded_count += least_cost > 0 ? 1 : 0;
    const bool holds =
        least_cost <= tried.extra_cost && bounds.least_peak_bytes() <= tried.peak_bytes;
    if (holds) continue;
    INFO(graph_text(graph), plan_text(graph, *plan));
    CHECK(bounds.least_peak_bytes() <= tried.peak_bytes);
    REQUIRE(least_cost <= tried.extra_cost);
  }
  return bounded_count;
}

TEST_CASE("no random plan costs less than the bound of its own peak, or peaks below the least") {
  INFO("--seed=", test_seed());
  Random random(test_seed());
  int bounded_count = 0;
  for (int i = 0; i < 500; ++i) {
    CAPTURE(i);
    const Graph awkward = random_graph(random);
    check_bounds(awkward, random_training_step(random), random);
    const std::size_t layer_count = 2 + pick(random, 12);
    const Graph chain = test::chain_graph(test::random_layer_chain(layer_count, random));
    bounded_count += check_bounds(chain, {}, random);
    bounded_count += check_bounds(test::random_block_graph(layer_count, random),
                                  random_training_step(random), random);
  }
  CHECK(bounded_count > 100);
}

}  // namespace
}  // namespace cairn
