// The oracles of planners against worked examples and against each other.

#include "tests/planner/brute_force.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <string>
#include <vector>

#include "graph/schedule.h"
#include "models/load_model.h"
#include "sim/simulator.h"
#include "sim/validator.h"
#include "tests/planner/chain_recurrence.h"
#include "tests/planner/random_chain.h"
#include "tests/planner/region_trees.h"
#include "tests/seed.h"

namespace cairn {
namespace {

// "60:0 50:2": peak and extra cost of each point.
std::string text_of(const std::vector<FrontierPoint>& frontier) {
  std::string text;
  for (const FrontierPoint& point : frontier) {
    text += fmt::format("{}{}:{}", text.empty() ? "" : " ", point.peak_bytes, point.extra_cost);
  }
  return text;
}

std::vector<FrontierPoint> best_trees(const Graph& graph) {
  return test::brute_force(
      graph, test::region_tree_plans(graph, test::block_ranges(graph), Extent::kNeeded));
}

// Worked example X9 of docs/accounting.md: no workspaces but those of a taped forward.
test::LayerChain x9(const std::vector<std::int64_t>& cw, const std::vector<std::int64_t>& cbw,
                    const std::vector<std::int64_t>& fw, const std::vector<std::int64_t>& tmp) {
  test::LayerChain chain{.input_bytes = cw[0]};
  for (std::size_t i = 0; i < cbw.size(); ++i) {
    chain.layers.push_back({.output_bytes = cw[i + 1],
                            .auxiliary_bytes = cbw[i] - cw[i + 1],
                            .workspace_bytes = tmp[i],
                            .forward_ns = fw[i]});
  }
  return chain;
}

void check_recurrence(const test::LayerChain& chain) {
  const std::vector<FrontierPoint> frontier = best_trees(test::chain_graph(chain));
  const Chain numbers = test::chain_numbers(chain);
  test::ChainRecurrence recurrence(numbers);
  for (std::int64_t budget = 0; budget <= frontier.front().peak_bytes + 1; ++budget) {
    const auto expected = test::least_extra_cost(frontier, budget);
    const auto found = recurrence.least_extra_cost(budget);
    if (expected == found) continue;
    CAPTURE(chain.layers.size());
    CAPTURE(budget);
    CAPTURE(text_of(frontier));
    REQUIRE(found.value_or(-1) == expected.value_or(-1));
  }
}

}  // namespace

TEST_CASE("there are as many region trees as their recurrence says") {
  // F(n) trees over n blocks, half of those over n > 0 being a single region: the first block is in
  // no region, or in one of its first k, F(n) = F(n - 1) + sum over k of F(k) F(n - k) / 2, where
  // the term of k = n is F(n) / 2 itself.
  std::vector<std::size_t> count = {1};
  for (std::size_t n = 1; n <= 6; ++n) {
    std::size_t half = count[n - 1];
    for (std::size_t k = 1; k < n; ++k) half += count[k] / 2 * count[n - k];
    count.push_back(2 * half);
  }
  CHECK(count == std::vector<std::size_t>{1, 2, 8, 48, 352, 2880, 25216});
  std::vector<std::pair<std::int32_t, std::int32_t>> blocks = {{0, 1}};
  for (std::size_t n = 0; n <= 6; ++n) {
    CHECK(test::region_trees(blocks).size() == count[n]);
    blocks.emplace_back(blocks.back().second, blocks.back().second + 1);
  }
}

TEST_CASE("X1: keep-all at 60, (0 1) 2 3 at 50, and nothing below") {
  const std::string path = std::string(CAIRN_SOURCE_DIR) + "/tests/models/graphs/x1_chain.yaml";
  const Graph graph = load_model({.model = path}).graph;
  std::vector<std::pair<std::int32_t, std::int32_t>> layers = {{0, 1}, {1, 2}, {2, 3}, {3, 4}};
  const std::vector<FrontierPoint> frontier =
      test::brute_force(graph, test::region_tree_plans(graph, layers, Extent::kNeeded));
  CHECK(text_of(frontier) == "60:0 50:2");
  REQUIRE(frontier[1].plan.regions.size() == 1);
  CHECK(frontier[1].plan.regions[0].end == 2);
  CHECK(test::least_extra_cost(frontier, 59) == 2);
  CHECK_FALSE(test::least_extra_cost(frontier, 49).has_value());
}

TEST_CASE("X9: what the published test of a taped forward gets wrong") {
  // Unsafe: it takes (0 1) 2 at 37 for 15, which peaks at 38.
  const test::LayerChain unsafe = x9({3, 1, 6, 0}, {5, 10, 0}, {6, 9, 8}, {24, 10, 28});
  CHECK(test::least_extra_cost(best_trees(test::chain_graph(unsafe)), 37) == 21);
  CHECK(test::least_extra_cost(best_trees(test::chain_graph(unsafe)), 38) == 15);
  check_recurrence(unsafe);
  // Strict: it finds nothing at 35, where (0) 1 2 fits for 8.
  const test::LayerChain strict = x9({1, 2, 1, 0}, {5, 4, 4}, {8, 7, 4}, {0, 28, 17});
  CHECK(test::least_extra_cost(best_trees(test::chain_graph(strict)), 35) == 8);
  CHECK_FALSE(test::least_extra_cost(best_trees(test::chain_graph(strict)), 34).has_value());
  check_recurrence(strict);
}

TEST_CASE("the recurrence of chains is the best of all region trees, at every budget") {
  INFO("--seed=", test_seed());
  Random random(test_seed());
  const std::vector<std::pair<std::size_t, int>> chain_counts = {{2, 50}, {3, 200}, {4, 200},
                                                                 {5, 50}, {6, 8},   {7, 2}};
  for (const auto& [layer_count, chain_count] : chain_counts) {
    for (int i = 0; i < chain_count; ++i) {
      check_recurrence(test::random_layer_chain(layer_count, random));
    }
  }
}

TEST_CASE("every plan of the oracles validates") {
  INFO("--seed=", test_seed());
  Random random(test_seed());
  int keep_list_count = 0;
  for (int i = 0; i < 20; ++i) {
    const Graph graph = test::random_block_graph(1 + pick(random, 2), random);
    for (const Plan& tree :
         test::region_tree_plans(graph, test::block_ranges(graph), Extent::kNeeded)) {
      for (const Plan& plan : test::with_keep_lists(graph, tree)) {
        const Schedule schedule = lower(graph, plan);
        const ValidationResult verdict = validate(graph, plan, schedule);
        REQUIRE_MESSAGE(verdict.fault == Fault::kNone, verdict.message);
        REQUIRE(verdict.peak_bytes == simulated_peak_bytes(graph, schedule));
        keep_list_count += plan.regions.empty() || plan.regions[0].keep.empty() ? 0 : 1;
      }
    }
  }
  CHECK(keep_list_count > 100);
}

TEST_CASE("keep lists are richer than trees: X4 keeps o and logsumexp for 3 instead of 12") {
  const std::string path =
      std::string(CAIRN_SOURCE_DIR) + "/tests/models/graphs/x4_flash_attention.yaml";
  const Graph graph = load_model({.model = path}).graph;
  Plan plan = keep_all_plan(graph);
  plan.regions = {{.begin = 0, .end = 3}};
  const std::vector<Plan> plans = test::with_keep_lists(graph, plan);
  REQUIRE(plans.size() == 16);  // all subsets of q, o, lse and p; the first half without p
  std::vector<std::int64_t> extra;
  for (std::size_t i = 0; i < 8; ++i) {
    const std::vector<FrontierPoint> point = test::brute_force(graph, {plans[i]});
    CHECK(point[0].peak_bytes == 74);
    extra.push_back(point[0].extra_cost);
  }
  // nothing, q, o, q o, lse, q lse, o lse, q o lse
  CHECK(extra == std::vector<std::int64_t>{12, 9, 12, 9, 12, 9, 3, 0});
}

}  // namespace cairn
