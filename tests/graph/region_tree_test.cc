#include "graph/region_tree.h"

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string>
#include <vector>

#include "graph/graph_builder.h"

namespace cairn {
namespace {

// f0 .. f5 in a chain; f5 also reads t0.
Graph skip_chain() {
  GraphBuilder builder("chain", DataType::kFloat32);
  TensorId last = builder.add_input_bytes("x", 8, true);
  const auto first_made = static_cast<TensorId>(1);
  for (int i = 0; i < 6; ++i) {
    std::vector<TensorId> inputs = {last};
    if (i == 5) inputs.push_back(first_made);
    last = builder.add_custom({.name = "f" + std::to_string(i),
                               .inputs = inputs,
                               .outputs = {{.name = "t" + std::to_string(i), .bytes = 8}}})[0];
  }
  return builder.build(last);
}

//   f0 ( f1 ( f2 f3 ) ) ( f4 f5 )
//   0    1    2           3          frames
Plan nested_plan(const Graph& graph) {
  Plan plan = keep_all_plan(graph);
  plan.regions = {{.begin = 1, .end = 4, .inner = {{.begin = 2, .end = 4}}},
                  {.begin = 4, .end = 6}};
  return plan;
}

std::string names(const Graph& graph, const std::vector<TensorId>& ids) {
  std::string text;
  for (const TensorId id : ids) text += (text.empty() ? "" : " ") + graph.tensor(id).name;
  return text;
}

}  // namespace

TEST_CASE("regions become frames, the root first and parents before their children") {
  const Graph graph = skip_chain();
  const RegionTree tree = flatten_regions(graph, nested_plan(graph));
  std::vector<std::string> frames;
  for (const Frame& frame : tree.frames) {
    frames.push_back(
        fmt::format("[{}, {}) in {} at {}", frame.begin, frame.end, frame.parent, frame.depth));
  }
  CHECK(fmt::format("{}", fmt::join(frames, ", ")) ==
        "[0, 6) in -1 at 0, [1, 4) in 0 at 1, [2, 4) in 1 at 2, [4, 6) in 0 at 1");
  CHECK(tree.frame_of_op == std::vector<std::int32_t>{0, 1, 2, 2, 3, 3});
  CHECK(tree.position_of_op == std::vector<std::int32_t>{0, 1, 2, 3, 4, 5});
}

TEST_CASE("positions are those of the plan's order, not of the graph's") {
  GraphBuilder builder("two", DataType::kFloat32);
  const TensorId x = builder.add_input_bytes("x", 8, true);
  builder.add_custom({.name = "a", .inputs = {x}, .outputs = {{.name = "ta", .bytes = 8}}});
  const TensorId b =
      builder.add_custom({.name = "b", .inputs = {x}, .outputs = {{.name = "tb", .bytes = 8}}})[0];
  const Graph graph = builder.build(b);
  Plan plan = keep_all_plan(graph);
  plan.order = {OpId{1}, OpId{0}};
  plan.regions = {{.begin = 0, .end = 1}};
  const RegionTree tree = flatten_regions(graph, plan);
  CHECK(tree.position_of_op == std::vector<std::int32_t>{1, 0});
  CHECK(tree.frame_of_op == std::vector<std::int32_t>{0, 1});
}

TEST_CASE("the common frame of two is the innermost around both") {
  const Graph graph = skip_chain();
  const RegionTree tree = flatten_regions(graph, nested_plan(graph));
  CHECK(common_frame(tree, 2, 2) == 2);
  CHECK(common_frame(tree, 1, 2) == 1);
  CHECK(common_frame(tree, 2, 3) == 0);
  CHECK(common_frame(tree, 0, 2) == 0);
  CHECK(is_inside(tree, 2, 1));
  CHECK(is_inside(tree, 2, 0));
  CHECK(is_inside(tree, 1, 1));
  CHECK_FALSE(is_inside(tree, 1, 2));
  CHECK_FALSE(is_inside(tree, 3, 1));
}

TEST_CASE("a region's inputs are what it reads from outside, but for the graph's own inputs") {
  const Graph graph = skip_chain();
  const auto inputs = region_inputs(graph, flatten_regions(graph, nested_plan(graph)));
  REQUIRE(inputs.size() == 4);
  CHECK(names(graph, inputs[0]).empty());
  CHECK(names(graph, inputs[1]) == "t0");     // f1
  CHECK(names(graph, inputs[2]) == "t1");     // f2
  CHECK(names(graph, inputs[3]) == "t0 t3");  // f5, f4
}

}  // namespace cairn
