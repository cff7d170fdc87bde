// The solver of chains, and `chain` and `auto` as a whole, against oracles.

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "models/chain_file.h"
#include "models/plain_graph.h"
#include "planner/chain_solver.h"
#include "planner/plan_for_budget.h"
#include "tests/planner/brute_force.h"
#include "tests/planner/chain_recurrence.h"
#include "tests/planner/random_chain.h"
#include "tests/planner/region_trees.h"
#include "tests/seed.h"

namespace cairn {
namespace {

std::int64_t between(Random& random, std::int64_t least, std::int64_t most) {
  return least +
         static_cast<std::int64_t>(pick(random, static_cast<std::size_t>(most - least + 1)));
}

// Numbers that no layers need have: only what planner/chain.h says of them holds. Some blocks are
// equal, and some ranges have a keep option.
Chain random_chain_numbers(std::size_t block_count, Random& random) {
  Chain chain{.base_bytes = between(random, 0, 5)};
  for (std::size_t i = 0; i < block_count; ++i) {
    if (i > 0 && one_in(random, 3)) {
      chain.blocks.push_back(chain.blocks.back());
      continue;
    }
    ChainBlock block{.kind = static_cast<std::int32_t>(i),
                     .input_bytes = between(random, 0, 6),
                     .sweep_cost = between(random, 1, 9)};
    block.sweep_peak_bytes = block.input_bytes + between(random, 1, 12);
    block.held_bytes = between(random, 0, 16);
    block.forward_peak_bytes = block.held_bytes + between(random, 0, 12);
    block.backward_peak_bytes = block.held_bytes + between(random, 0, 16);
    block.inner_held_bytes = block.held_bytes + between(random, 0, 2);
    block.inner_forward_peak_bytes = block.forward_peak_bytes + between(random, 0, 2);
    block.inner_backward_peak_bytes = block.backward_peak_bytes + between(random, 0, 2);
    block.last_peak_bytes = block.inner_backward_peak_bytes + between(random, 0, 4);
    block.last_cost = between(random, 0, block.sweep_cost);
    block.gradient_bytes = between(random, 0, 6);
    block.parameter_gradient_bytes = one_in(random, 2) ? between(random, 0, 3) : 0;
    chain.blocks.push_back(block);
  }
  for (std::size_t begin = 0; begin + 1 < block_count; ++begin) {
    if (!one_in(random, 2)) continue;
    const ChainBlock& block = chain.blocks[begin];
    chain.options.push_back({.begin = static_cast<std::int32_t>(begin),
                             .end = static_cast<std::int32_t>(begin) + 1,
                             .held_bytes = block.input_bytes + between(random, 0, 6),
                             .forward_peak_bytes = block.sweep_peak_bytes + between(random, 0, 6),
                             .backward_peak_bytes = block.last_peak_bytes,
                             .extra_cost = between(random, 0, block.last_cost)});
  }
  return chain;
}

std::int64_t generous_bytes(const Chain& chain) {
  std::int64_t bytes = chain.base_bytes + 40;
  for (const ChainBlock& block : chain.blocks) {
    bytes += block.held_bytes + block.parameter_gradient_bytes;
  }
  return bytes;
}

// The solver's frontier and its answer to every single budget.
void check_solver(const Chain& chain) {
  test::ChainRecurrence recurrence(chain);
  const std::int64_t most_bytes = generous_bytes(chain);
  const ChainSolution frontier = solve_chain(chain, most_bytes);
  REQUIRE(frontier.statistics().is_exact);
  for (std::int64_t budget = 0; budget <= most_bytes; ++budget) {
    CAPTURE(budget);
    const auto expected = recurrence.least_extra_cost(budget);
    REQUIRE(expected.has_value() == (frontier.least_need_bytes() <= budget));
    if (!expected) continue;
    REQUIRE(cost_of_items(chain, frontier.items_of(budget)) == *expected);
    REQUIRE(frontier.lower_bound(budget) == *expected);
    if (budget % 7 != 0) continue;
    const ChainSolution one = solve_chain(chain, budget, {.is_whole_frontier = false});
    REQUIRE(cost_of_items(chain, one.items_of(budget)) == *expected);
  }
}

PlanAnswer answer_of(const Graph& graph, Algorithm algorithm, std::int64_t budget_bytes) {
  return plan_for_budget(
      graph, {.strategy = {.algorithm = algorithm}, .setting = {.extent = Extent::kNeeded}},
      budget_bytes);
}

}  // namespace

TEST_CASE("the solver of chains is the recurrence, at every budget") {
  INFO("--seed=", test_seed());
  Random random(test_seed());
  for (int i = 0; i < 60; ++i) {
    CAPTURE(i);
    const std::size_t block_count = 1 + pick(random, 9);
    check_solver(test::chain_numbers(test::random_layer_chain(block_count, random)));
    check_solver(random_chain_numbers(block_count, random));
  }
}

TEST_CASE("chain and auto are as cheap as the best of all region trees, at every budget") {
  INFO("--seed=", test_seed());
  Random random(test_seed());
  const std::vector<std::pair<std::size_t, int>> chain_counts = {{2, 5}, {4, 10}, {5, 5}, {7, 1}};
  for (const auto& [layer_count, chain_count] : chain_counts) {
    for (int i = 0; i < chain_count; ++i) {
      const Graph graph = test::chain_graph(test::random_layer_chain(layer_count, random));
      const std::vector<FrontierPoint> best = test::brute_force(
          graph, test::region_tree_plans(graph, test::block_ranges(graph), Extent::kNeeded));
      for (const FrontierPoint& point : best) {
        for (const Algorithm algorithm : {Algorithm::kChain, Algorithm::kAuto}) {
          CAPTURE(layer_count);
          CAPTURE(point.peak_bytes);
          const PlanAnswer answer = answer_of(graph, algorithm, point.peak_bytes);
          REQUIRE(answer.is_feasible);
          REQUIRE(answer.evaluation.trace.peak_bytes <= point.peak_bytes);
          REQUIRE(answer.extra_cost <= point.extra_cost);
          REQUIRE(answer.bound.extra_cost <= answer.extra_cost);
        }
      }
    }
  }
}

TEST_CASE("two imported chains are planned at their optimum, replayed within their budget") {
  const std::filesystem::path folder =
      std::filesystem::path(CAIRN_SOURCE_DIR).parent_path() / "shared/data/chains";
  struct Expected {
    std::string file = {};
    std::int64_t budget_bytes = 0;
    std::string optimum_ms = {};
  };
  for (const Expected& expected :
       {Expected{"chain-48.json", 496, "1014.316"}, Expected{"chain-100.json", 498, "1959.118"}}) {
    if (!std::filesystem::exists(folder / expected.file)) {
      MESSAGE("skipped: no " << (folder / expected.file).string());
      continue;
    }
    const ChainFile chain = read_chain_file(read_document(folder / expected.file));
    CHECK(chain.budget_bytes == expected.budget_bytes);
    const Graph graph =
        read_plain_graph(parse_document(expected.file, chain_graph_text(chain)), {});
    const PlanAnswer answer = answer_of(graph, Algorithm::kChain, expected.budget_bytes);
    CHECK(answer.is_feasible);
    CHECK(answer.evaluation.trace.peak_bytes <= expected.budget_bytes);
    REQUIRE(answer.evaluation.time.has_value());
    CHECK(fmt::format("{:.3f}", static_cast<double>(answer.evaluation.time->total_ns) / 1e6) ==
          expected.optimum_ms);
  }
}

TEST_CASE("no plan of small graphs, with keep lists or without, costs less than the bound") {
  INFO("--seed=", test_seed());
  Random random(test_seed());
  for (int i = 0; i < 15; ++i) {
    const Graph graph = test::chain_graph(test::random_layer_chain(2 + pick(random, 2), random));
    std::vector<Plan> plans;
    for (const Plan& tree :
         test::region_tree_plans(graph, test::block_ranges(graph), Extent::kNeeded)) {
      for (Plan& plan : test::with_keep_lists(graph, tree)) plans.push_back(std::move(plan));
    }
    for (const FrontierPoint& point : test::brute_force(graph, plans)) {
      const PlanAnswer answer = answer_of(graph, Algorithm::kAuto, point.peak_bytes);
      if (answer.is_feasible) REQUIRE(answer.bound.extra_cost <= point.extra_cost);
    }
  }
}

}  // namespace cairn
