#include "graph/dag.h"

#include <doctest/doctest.h>

#include <string>

#include "graph/graph_builder.h"

namespace cairn {
namespace {

using Ops = std::vector<std::size_t>;

struct NamedOp {
  std::string name = {};  // of the op and of its output
  std::vector<std::string> inputs = {};
};

// Every op makes 1 byte and saves nothing; "x" is an input with a gradient, "ids" one without.
Graph graph_of(const std::vector<NamedOp>& ops) {
  GraphBuilder builder("graph", DataType::kFloat32);
  builder.add_input_bytes("x", 1, true);
  builder.add_input_bytes("ids", 1, false);
  TensorId loss = kNoTensor;
  for (const NamedOp& op : ops) {
    CustomOp custom{.name = op.name, .outputs = {{.name = op.name, .bytes = 1}}};
    for (const std::string& input : op.inputs) custom.inputs.push_back(builder.find(input));
    loss = builder.add_custom(custom)[0];
  }
  return builder.build(loss);
}

std::vector<std::string> articulations(const std::vector<NamedOp>& ops) {
  const Graph graph = graph_of(ops);
  std::vector<std::string> names;
  for (const OpId op : articulation_ops(graph)) names.push_back(graph.op(op).name);
  return names;
}

using Names = std::vector<std::string>;

}  // namespace

TEST_CASE("a graph without a cycle has none") {
  CHECK(find_cycle(0, {}).empty());
  CHECK(find_cycle(3, {}).empty());
  // Two paths from 0 to 3 meet; that is no cycle.
  CHECK(find_cycle(4, {{0, 1}, {0, 2}, {1, 3}, {2, 3}, {1, 3}}).empty());
}

TEST_CASE("a cycle is told in order, from its lowest op on") {
  CHECK(find_cycle(2, {{0, 1}, {1, 0}}) == Ops{0, 1});
  CHECK(find_cycle(3, {{1, 1}}) == Ops{1});
  // 4 -> 2 -> 3 -> 4, with 0 before it and 1 behind it.
  CHECK(find_cycle(5, {{0, 4}, {4, 2}, {2, 3}, {3, 4}, {3, 1}}) == Ops{2, 3, 4});
}

TEST_CASE("one of several cycles is told") {
  const Ops cycle = find_cycle(4, {{2, 3}, {3, 2}, {0, 1}, {1, 0}});
  CHECK(cycle == Ops{0, 1});
}

TEST_CASE("250,000 ops in a line have no cycle, and theirs is found") {
  constexpr std::size_t kOpCount = 250'000;
  std::vector<DagEdge> edges;
  for (std::size_t op = 0; op + 1 < kOpCount; ++op) {
    edges.push_back({.before = op + 1, .after = op});  // the given order is the reverse
  }
  CHECK(find_cycle(kOpCount, edges).empty());
  edges.push_back({.before = 0, .after = kOpCount - 1});
  const Ops cycle = find_cycle(kOpCount, edges);
  REQUIRE(cycle.size() == kOpCount);
  CHECK(cycle[0] == 0);
  CHECK(cycle[1] == kOpCount - 1);
  CHECK(cycle.back() == 1);
}

TEST_CASE("the inner ops of a chain are articulation points, its ends are not") {
  CHECK(articulations({{"a", {"x"}}}) == Names{});
  CHECK(articulations({{"a", {"x"}}, {"loss", {"a"}}}) == Names{});
  CHECK(articulations({{"a", {"x"}}, {"b", {"a"}}, {"c", {"b"}}, {"loss", {"c"}}}) ==
        Names{"b", "c"});
}

TEST_CASE("a skip joins the ops it spans") {
  // embed feeds norm and, past attn, add.
  CHECK(articulations({{"embed", {"x"}},
                       {"norm", {"embed"}},
                       {"attn", {"norm"}},
                       {"add", {"embed", "attn"}},
                       {"head", {"add"}},
                       {"loss", {"head"}}}) == Names{"add", "head"});
  // Two residual layers in a row meet in the first add.
  CHECK(articulations({{"embed", {"x"}},
                       {"f", {"embed"}},
                       {"add", {"embed", "f"}},
                       {"g", {"add"}},
                       {"add2", {"add", "g"}},
                       {"loss", {"add2"}}}) == Names{"add", "add2"});
}

TEST_CASE("reading one tensor twice joins no more than reading it once") {
  CHECK(articulations({{"a", {"x"}}, {"square", {"a", "a"}}, {"loss", {"square"}}}) ==
        Names{"square"});
}

TEST_CASE("only tensors that carry gradients join ops") {
  // mask comes from ids alone, and b and c both read it: without it, a b c loss is a chain.
  CHECK(articulations({{"mask", {"ids"}},
                       {"a", {"x"}},
                       {"b", {"a", "mask"}},
                       {"c", {"b", "mask"}},
                       {"loss", {"c"}}}) == Names{"b", "c"});
  // accuracy reads b, but the loss does not depend on it: b is a chain's inner op all the same.
  CHECK(articulations({{"a", {"x"}}, {"accuracy", {"a"}}, {"b", {"a"}}, {"loss", {"b"}}}) ==
        Names{"b"});
}

TEST_CASE("a chain of 100,000 ops has 99,998 articulation points") {
  constexpr std::size_t kOpCount = 100'000;
  std::vector<NamedOp> ops = {{"0", {"x"}}};
  for (std::size_t i = 1; i < kOpCount; ++i) {
    ops.push_back({std::to_string(i), {std::to_string(i - 1)}});
  }
  const std::vector<OpId> found = articulation_ops(graph_of(ops));
  REQUIRE(found.size() == kOpCount - 2);
  CHECK(index(found.front()) == 1);
  CHECK(index(found.back()) == kOpCount - 2);
}

}  // namespace cairn
