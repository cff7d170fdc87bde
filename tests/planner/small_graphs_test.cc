// The best plans of six small graphs of tests/cli/files, as the comments in them say.

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <string>
#include <utility>
#include <vector>

#include "models/load_model.h"
#include "tests/planner/brute_force.h"
#include "tests/planner/random_chain.h"
#include "tests/planner/region_trees.h"

namespace cairn {
namespace {

Graph graph_named(const std::string& name) {
  return load_model({.model = std::string(CAIRN_SOURCE_DIR) + "/tests/cli/files/" + name}).graph;
}

std::vector<std::pair<std::int32_t, std::int32_t>> single_ops(const Graph& graph) {
  std::vector<std::pair<std::int32_t, std::int32_t>> ops;
  for (std::size_t i = 0; i < graph.ops.size(); ++i) {
    ops.emplace_back(static_cast<std::int32_t>(i), static_cast<std::int32_t>(i) + 1);
  }
  return ops;
}

std::vector<Plan> trees_of(const Graph& graph) {
  const auto blocks = graph.block_count > 0 ? test::block_ranges(graph) : single_ops(graph);
  return test::region_tree_plans(graph, blocks, Extent::kNeeded);
}

// "52:0 46:10": peak and extra time of each plan that none is better than.
std::string best_of(const Graph& graph, const std::vector<Plan>& plans) {
  std::string text;
  for (const FrontierPoint& point : test::brute_force(graph, plans)) {
    text += fmt::format("{}{}:{}", text.empty() ? "" : " ", point.peak_bytes, point.extra_cost);
  }
  return text;
}

std::string best_trees(const std::string& name) {
  const Graph graph = graph_named(name);
  return best_of(graph, trees_of(graph));
}

std::string best_keep_lists(const Graph& graph, const std::vector<Plan>& trees) {
  std::vector<Plan> plans;
  for (const Plan& tree : trees) {
    for (Plan& plan : test::with_keep_lists(graph, tree)) plans.push_back(std::move(plan));
  }
  return best_of(graph, plans);
}

// One tree of regions over positions.
std::string best_keep_lists(const std::string& name, std::vector<Region> regions) {
  const Graph graph = graph_named(name);
  Plan plan = keep_all_plan(graph);
  plan.regions = std::move(regions);
  return best_keep_lists(graph, {plan});
}

}  // namespace

TEST_CASE("small graphs: the best regions without keep lists") {
  CHECK(best_trees("chain_of_4.yaml") == "52:0 46:10 36:20 32:30 30:40 26:60");
  CHECK(best_trees("residual_pair.yaml") == "97:0 65:9 64:18");
  CHECK(best_trees("unet_skip.yaml") == "96:0 80:2 72:5");
  CHECK(best_trees("flash_attention.yaml") == "107:0 99:1 98:7 97:9 89:10 82:14");
  CHECK(best_trees("two_branches.yaml") == "117:0 88:1 85:9 84:10 80:18");
  CHECK(best_trees("unequal_chain.yaml") == "67:0 63:1 47:4 43:5 41:9 37:13 33:14 31:18");
}

TEST_CASE("small graphs: what keep lists on outermost regions are worth") {
  const Graph pair = graph_named("residual_pair.yaml");
  CHECK(best_keep_lists(pair, trees_of(pair)) == "97:0 89:1 88:2 73:8 65:9 64:10");
  CHECK(best_keep_lists("chain_of_4.yaml", {{.begin = 1, .end = 3}}) == "52:0 42:10");
  CHECK(best_keep_lists("flash_attention.yaml", {{.begin = 1, .end = 3}}) == "107:0 90:3");
  CHECK(best_keep_lists("flash_attention.yaml",
                        {{.begin = 0, .end = 3, .inner = {{.begin = 0, .end = 2}}}}) ==
        "107:0 99:1 90:3 82:5");
  CHECK(best_keep_lists("two_branches.yaml",
                        {{.begin = 0, .end = 4, .inner = {{.begin = 0, .end = 2}}}}) ==
        "117:0 88:1 80:9");
}

}  // namespace cairn
