// Greedy regions by the bytes that they make.

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <string>
#include <vector>

#include "graph/graph_builder.h"
#include "graph/schedule.h"
#include "planner/planner.h"
#include "tests/planner/equal_chain.h"

namespace cairn {
namespace {

struct MadeOp {
  std::string name = {};
  std::vector<std::string> inputs = {};
  std::int64_t bytes = 0;
  bool in_place = false;
};

// Each op saves its inputs, unless something overwrites them. The last is the loss.
Graph graph_of(const std::vector<MadeOp>& ops) {
  GraphBuilder builder("graph", DataType::kFloat32);
  TensorId last = builder.add_input_bytes("x", 1, true);
  for (const MadeOp& made : ops) {
    CustomOp op{.name = made.name, .in_place = made.in_place};
    for (const std::string& input : made.inputs) op.inputs.push_back(builder.find(input));
    const TensorId base = made.in_place ? op.inputs[0] : kNoTensor;
    op.outputs = {{.name = made.name, .bytes = made.bytes, .view_of = base}};
    if (!made.in_place) op.saved = made.inputs;
    last = builder.add_custom(op)[0];
  }
  return builder.build(last);
}

std::string regions_text(const Plan& plan) {
  std::string text;
  for (const Region& region : plan.regions) {
    text += fmt::format("[{},{})", region.begin, region.end);
  }
  return text.empty() ? "none" : text;
}

std::vector<std::string> plans_of(const Graph& graph) {
  std::vector<std::string> texts;
  for (const Plan& plan : chen_greedy_plans(graph, Extent::kNeeded)) {
    CHECK(plan.algorithm == "chen-greedy");
    CHECK_NOTHROW(lower(graph, plan));
    texts.push_back(regions_text(plan));
  }
  return texts;
}

}  // namespace

TEST_CASE("each b that cuts otherwise gives a plan, up to the one that cuts nothing") {
  // Layers make 2 bytes each, and the loss is never in a region.
  const Graph graph = test::equal_chain(4, test::EqualSaves::kAll);
  CHECK(plans_of(graph) == std::vector<std::string>{"[0,1)[1,2)[2,3)[3,4)",  // b = 0
                                                    "[0,2)[2,4)",            // b = 2
                                                    "[0,3)",  // b = 4, and layer 3 is left: 2 bytes
                                                    "[0,4)",  // b = 6
                                                    "none"});  // b = 8
}

TEST_CASE("a region ends by its bytes, not by its layers") {
  // In a chain without blocks the first layer is a b: c and on end regions of their own.
  const Graph graph = graph_of({{"a", {"x"}, 1},
                                {"b", {"a"}, 1},
                                {"c", {"b"}, 8},
                                {"d", {"c"}, 1},
                                {"e", {"d"}, 1},
                                {"loss", {"e"}, 0}});
  CHECK(plans_of(graph) ==
        std::vector<std::string>{"[0,2)[2,3)[3,4)[4,5)",  // b = 0: a b 2, c 8, d 1, e 1
                                 "[0,2)[2,3)[3,5)",       // b = 1: d e 2
                                 "[0,3)",                 // b = 2: a b c 10; d e 2 are left
                                 "[0,4)",                 // b = 10: a b c d 11
                                 "[0,5)",                 // b = 11: all, 12
                                 "none"});                // b = 12
}

TEST_CASE("without a cut point nothing is cut") {
  // a is read to the end: b and c are no articulation points.
  const Graph graph =
      graph_of({{"a", {"x"}, 4}, {"b", {"a"}, 4}, {"c", {"a", "b"}, 4}, {"loss", {"a", "c"}, 0}});
  CHECK(plans_of(graph) == std::vector<std::string>{"none"});
}

TEST_CASE("no region ends before an op that overwrites what the region made") {
  const Graph graph = graph_of({{"a", {"x"}, 4},
                                {"b", {"a"}, 4},
                                {"relu", {"b"}, 4, true},
                                {"c", {"relu"}, 4},
                                {"loss", {"c"}, 0}});
  // a, b and relu make 8, c makes 4.
  CHECK(plans_of(graph) == std::vector<std::string>{"[0,3)[3,4)", "[0,3)", "[0,4)", "none"});
}

TEST_CASE("many cut points give at most some hundred plans") {
  const Graph graph = test::equal_chain(1000, test::EqualSaves::kInput);
  const std::vector<Plan> plans = chen_greedy_plans(graph, Extent::kNeeded);
  CHECK(plans.size() > 50);
  CHECK(plans.size() < 200);
  CHECK(plans.front().regions.size() == 1000);
  CHECK(plans.back().regions.empty());
}

}  // namespace cairn
