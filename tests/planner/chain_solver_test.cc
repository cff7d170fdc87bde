#include "planner/chain_solver.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "planner/chain_sums.h"
#include "tests/planner/chain_recurrence.h"
#include "tests/planner/solver_chains.h"
#include "tests/seed.h"

namespace cairn {
namespace {

std::int64_t cost_at(const ChainSolution& solution, std::int64_t budget_bytes) {
  return cost_within(solution.points(), budget_bytes);
}

ChainSolution solve_one(const Chain& chain, std::int64_t budget_bytes,
                        ChainSolverOptions options = {}) {
  options.is_whole_frontier = false;
  return solve_chain(chain, budget_bytes, options);
}

// "0 (1 2) [3 4) ..." is hard to read: kept blocks as numbers, regions in (), options as oK.
std::string text_of(const std::vector<ChainItem>& items) {
  std::string text;
  for (const ChainItem& item : items) {
    if (!text.empty()) text += ' ';
    if (item.kind == ChainItem::Kind::kKept) text += fmt::format("{}", item.begin);
    if (item.kind == ChainItem::Kind::kOption) text += fmt::format("o{}", item.option);
    if (item.kind == ChainItem::Kind::kRegion) text += "(" + text_of(item.inner) + ")";
  }
  return text;
}

void check_points(const ChainSolution& solution) {
  for (std::size_t i = 1; i < solution.points().size(); ++i) {
    CHECK(solution.points()[i - 1].need_bytes < solution.points()[i].need_bytes);
    CHECK(solution.points()[i - 1].extra_cost > solution.points()[i].extra_cost);
  }
}

// All points of two solutions, and the plans behind them.
void check_same(const Chain& chain, const ChainSolution& one, const ChainSolution& other) {
  REQUIRE(one.points().size() == other.points().size());
  for (std::size_t i = 0; i < one.points().size(); ++i) {
    const ChainPoint& point = one.points()[i];
    CHECK(point.need_bytes == other.points()[i].need_bytes);
    CHECK(point.extra_cost == other.points()[i].extra_cost);
    const std::vector<ChainItem> items = one.items_of(point.need_bytes);
    CHECK(text_of(items) == text_of(other.items_of(point.need_bytes)));
    CHECK(cost_of_items(chain, items) <= point.extra_cost);
  }
}

}  // namespace

TEST_CASE("X1: three regions of a plain chain, budget by budget") {
  // x0..x3 = 10, x4 = 0; x0 is counted here by the first block, as an input that a region holds.
  const Chain chain = saved_chain({10, 10, 10, 10, 0}, {10, 10, 10, 0}, {0, 0, 0, 0}, {1, 1, 1, 1});
  const ChainSolution solution = solve_chain(chain, 1000);
  check_points(solution);
  CHECK(solution.statistics().is_exact);
  // "0 1 2 3" 60 with 0 extra; "(0 1) 2 3" 50 with 2.
  CHECK(cost_at(solution, 60) == 0);
  CHECK(cost_at(solution, 59) == 2);
  CHECK(cost_at(solution, 50) == 2);
  CHECK(text_of(solution.items_of(59)) == "(0 1) 2 3");
  CHECK(cost_at(solution, 49) == kInfiniteCost);
  CHECK(solution.least_need_bytes() == 50);
}

TEST_CASE("X9: the gradient of a region's output is there while its first layers are taped") {
  const Chain unsafe = saved_chain({3, 1, 6, 0}, {5, 10, 0}, {24, 10, 28}, {6, 9, 8}, {0, 0, 0});
  // (0 1) 2 would need x0 3 + y2 6 + abar1 5 + 24 = 38.
  CHECK(cost_at(solve_chain(unsafe, 38), 38) == 15);
  const ChainSolution unsafe_37 = solve_chain(unsafe, 37);
  CHECK(cost_at(unsafe_37, 37) == 21);
  CHECK(text_of(unsafe_37.items_of(37)) == "((0) 1) 2");
  const Chain strict = saved_chain({1, 2, 1, 0}, {5, 4, 4}, {0, 28, 17}, {8, 7, 4}, {0, 0, 0});
  const ChainSolution strict_35 = solve_chain(strict, 35);
  CHECK(cost_at(strict_35, 35) == 8);
  CHECK(text_of(strict_35.items_of(35)) == "(0) 1 2");
}

TEST_CASE("the published optima of two random chains") {
  const std::filesystem::path folder =
      std::filesystem::path(CAIRN_SOURCE_DIR).parent_path() / "shared/data/chains";
  for (const char* const name : {"chain-48", "chain-100"}) {
    const std::filesystem::path path = folder / fmt::format("{}.json", name);
    if (!std::filesystem::exists(path)) {
      MESSAGE("skipped: no " << path.string());
      continue;
    }
    nlohmann::json file;
    std::ifstream(path) >> file;
    std::vector<std::int64_t> times;
    for (const double time : file["forward_time"]) times.push_back(std::llround(time * 1e6));
    std::vector<std::int64_t> inputs = file["activation"];
    const std::vector<std::int64_t> saved = file["saved"];
    Chain chain = saved_chain(inputs, {saved.begin() + 1, saved.end()}, file["workspace"], times,
                              file["workspace"]);
    // x0 is resident outside the budget; its gradient counts.
    make_first_input_resident(chain);
    const std::int64_t budget_bytes = file["budget"];
    const ChainSolution solution = solve_one(chain, budget_bytes);
    const double total = file["keep_all_time"].get<double>() +
                         static_cast<double>(cost_at(solution, budget_bytes)) * 1e-6;
    CHECK(std::abs(total - file["optimum_time"].get<double>()) < 0.001);
    CHECK(cost_of_items(chain, solution.items_of(budget_bytes)) == cost_at(solution, budget_bytes));
    CHECK(need_of(chain, solution.items_of(budget_bytes)) <= budget_bytes);
    CHECK(cost_at(solve_chain(chain, budget_bytes), budget_bytes) ==
          cost_at(solution, budget_bytes));
  }
}

TEST_CASE("every budget of small chains costs what the plain recurrence says") {
  INFO("--seed=", test_seed());
  std::mt19937_64 random(test_seed());
  for (int round = 0; round < 300; ++round) {
    const Chain chain = random_chain(random, {.most_blocks = 7, .has_options = round % 3 == 0});
    test::ChainRecurrence recurrence(chain);
    const ChainSums sums = sum_chain(chain);
    const std::int64_t most_bytes = chain.base_bytes + keep_all_bytes(chain, sums) + 2;
    const ChainSolution whole = solve_chain(chain, most_bytes);
    REQUIRE(whole.statistics().is_exact);
    check_points(whole);
    CHECK(whole.least_need_bytes() == whole.points().front().need_bytes);
    for (std::int64_t budget = chain.base_bytes - 1; budget <= most_bytes; ++budget) {
      INFO("round ", round, ", budget ", budget);
      const std::int64_t want = recurrence.least_extra_cost(budget).value_or(kInfiniteCost);
      CHECK(cost_at(whole, budget) == want);
      CHECK(whole.lower_bound(budget) == want);
      // With pruning from regions of one or two blocks on.
      const ChainSolution one = solve_one(chain, budget, {.first_region_blocks = 1 + round % 2});
      CHECK(cost_at(one, budget) == want);
      if (want == kInfiniteCost) {
        CHECK(budget < whole.least_need_bytes());
        CHECK(one.points().empty());
        CHECK(one.least_need_bytes() == whole.least_need_bytes());
        continue;
      }
      const std::vector<ChainItem> items = one.items_of(budget);
      CHECK(cost_of_items(chain, items) == want);
      CHECK(need_of(chain, items) <= budget);
      CHECK(text_of(items) == text_of(one.items_of(budget)));
      CHECK(need_of(chain, whole.items_of(budget)) <= budget);
      CHECK(cost_of_items(chain, whole.items_of(budget)) == want);
    }
  }
}

TEST_CASE("options are never a loss") {
  INFO("--seed=", test_seed());
  std::mt19937_64 random(test_seed());
  int better = 0;
  for (int round = 0; round < 50; ++round) {
    const Chain with = random_chain(random, {.most_blocks = 7, .has_options = true});
    Chain without = with;
    without.options.clear();
    const ChainSolution one = solve_chain(with, 10'000);
    const ChainSolution other = solve_chain(without, 10'000);
    for (const ChainPoint& point : other.points()) {
      CHECK(cost_at(one, point.need_bytes) <= point.extra_cost);
      if (cost_at(one, point.need_bytes) < point.extra_cost) ++better;
    }
  }
  CHECK(better > 0);
}

TEST_CASE("sizes rounded to slots: never over the budget, and within the certificate") {
  INFO("--seed=", test_seed());
  std::mt19937_64 random(test_seed());
  int rounded_up = 0;
  for (int round = 0; round < 60; ++round) {
    const Chain chain = random_chain(
        random, {.most_blocks = 7, .has_options = round % 2 == 0, .bytes_per_unit = 1009});
    test::ChainRecurrence recurrence(chain);
    const ChainSolution solution = solve_chain(chain, 1 << 20, {.slot_limit = 24});
    check_points(solution);
    REQUIRE(!solution.statistics().is_exact);
    for (const ChainPoint& point : solution.points()) {
      const std::vector<ChainItem> items = solution.items_of(point.need_bytes);
      CHECK(need_of(chain, items) <= point.need_bytes);
      CHECK(cost_of_items(chain, items) <= point.extra_cost);
    }
    for (std::int64_t budget = chain.base_bytes; budget < 100'000; budget += 1777) {
      const std::int64_t want = recurrence.least_extra_cost(budget).value_or(kInfiniteCost);
      CHECK(solution.lower_bound(budget) <= want);
      CHECK(cost_at(solution, budget) >= want);
      if (cost_at(solution, budget) > want) ++rounded_up;
    }
  }
  CHECK(rounded_up > 0);
}

TEST_CASE("each rule that saves time leaves the answer as it is") {
  INFO("--seed=", test_seed());
  std::mt19937_64 random(test_seed());
  const Chain chain = random_chain(random, {.least_blocks = 60, .most_blocks = 60});
  const std::int64_t budget_bytes =
      chain.base_bytes + keep_all_bytes(chain, sum_chain(chain)) * 2 / 5;
  const ChainSolution whole = solve_chain(chain, budget_bytes, {.thread_count = 1});
  REQUIRE(!whole.points().empty());

  const ChainSolution no_samples =
      solve_chain(chain, budget_bytes, {.thread_count = 1, .skip_by_samples = false});
  check_same(chain, whole, no_samples);
  CHECK(no_samples.statistics().nested.split_count > whole.statistics().nested.split_count);

  const ChainSolution no_order =
      solve_chain(chain, budget_bytes, {.thread_count = 1, .try_likely_splits_first = false});
  check_same(chain, whole, no_order);

  const ChainSolution unpruned = solve_one(chain, budget_bytes, {.prune_by_budget = false});
  for (const std::int64_t first_region_blocks : {2, 4, 16}) {
    const ChainSolution pruned =
        solve_one(chain, budget_bytes, {.first_region_blocks = first_region_blocks});
    CHECK(cost_at(pruned, budget_bytes) == cost_at(whole, budget_bytes));
    CHECK(text_of(pruned.items_of(budget_bytes)) == text_of(unpruned.items_of(budget_bytes)));
    CHECK(pruned.statistics().nested.state_count < unpruned.statistics().nested.state_count);
    CHECK(pruned.statistics().nested.split_count < unpruned.statistics().nested.split_count);
  }
  for (std::int64_t budget = whole.points().front().need_bytes; budget <= budget_bytes;
       budget += 9) {
    const ChainSolution pruned = solve_one(chain, budget, {.first_region_blocks = 4});
    CHECK(cost_at(pruned, budget) == cost_at(whole, budget));
    CHECK(text_of(pruned.items_of(budget)) ==
          text_of(solve_one(chain, budget, {.prune_by_budget = false}).items_of(budget)));
  }
}

TEST_CASE("any number of threads gives the same plans") {
  INFO("--seed=", test_seed());
  std::mt19937_64 random(test_seed());
  const Chain chain = random_chain(random, {.least_blocks = 80, .most_blocks = 80});
  const std::int64_t budget_bytes = chain.base_bytes + keep_all_bytes(chain, sum_chain(chain)) / 2;
  const ChainSolution one = solve_chain(chain, budget_bytes, {.thread_count = 1});
  const ChainSolution two = solve_chain(chain, budget_bytes, {.thread_count = 2});
  const ChainSolution three = solve_one(chain, budget_bytes, {.thread_count = 3});
  check_same(chain, one, two);
  CHECK(one.statistics().nested.split_count == two.statistics().nested.split_count);
  CHECK(text_of(one.items_of(budget_bytes)) == text_of(three.items_of(budget_bytes)));
}

TEST_CASE("equal blocks share their rows") {
  INFO("--seed=", test_seed());
  std::mt19937_64 random(test_seed());
  for (int round = 0; round < 10; ++round) {
    const std::int64_t bytes_per_unit = round % 2 == 0 ? 1 : 1009;
    Chain chain = random_chain(
        random, {.least_blocks = 40, .most_blocks = 40, .bytes_per_unit = bytes_per_unit});
    for (std::size_t i = 1; i + 1 < chain.blocks.size(); ++i) {  // two kinds and the ends
      chain.blocks[i] = chain.blocks[i % 3 == 0 ? 2 : 1];
    }
    ChainSolverOptions options = {.slot_limit = bytes_per_unit == 1 ? 0 : 200};
    const ChainSolution shared = solve_chain(chain, 1 << 20, options);
    options.share_equal_rows = false;
    const ChainSolution separate = solve_chain(chain, 1 << 20, options);
    check_same(chain, shared, separate);
    CHECK(shared.statistics().nested.row_count < separate.statistics().nested.row_count / 4);
  }
}

TEST_CASE("a chain of one block, and of a thousand") {
  Chain chain = saved_chain({2, 1}, {5}, {0}, {1});
  CHECK(solve_chain(chain, 100).points().size() == 1);
  CHECK(text_of(solve_chain(chain, 100).items_of(100)) == "0");
  CHECK(solve_chain(chain, 3).points().empty());

  const ChainBlock block = saved_chain({1, 1, 0}, {3, 0}, {0, 0}, {1, 1}).blocks.front();
  chain.blocks.assign(1000, block);
  const ChainSolution solution = solve_chain(chain, 40);
  REQUIRE(!solution.points().empty());
  const std::vector<ChainItem> items = solution.items_of(40);
  CHECK(cost_of_items(chain, items) == cost_at(solution, 40));
  CHECK(solution.least_need_bytes() == solution.points().front().need_bytes);
  // At the least budget regions nest as deep as the chain is long.
  CHECK(cost_of_items(chain, solution.items_of(solution.points().front().need_bytes)) ==
        solution.points().front().extra_cost);
}

}  // namespace cairn
