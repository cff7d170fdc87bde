#include "graph/plan.h"

#include <doctest/doctest.h>

#include <string>
#include <utility>
#include <vector>

#include "graph/error.h"
#include "graph/graph_builder.h"

namespace cairn {
namespace {

// x -> f0 -> t0 -> f1 -> t1 -> f2 -> t2 -> f3 -> t3, the loss.
Graph chain() {
  GraphBuilder builder("chain", DataType::kFloat32);
  TensorId last = builder.add_input_bytes("x", 8, true);
  for (int i = 0; i < 4; ++i) {
    last = builder.add_custom({.name = "f" + std::to_string(i),
                               .inputs = {last},
                               .outputs = {{.name = "t" + std::to_string(i), .bytes = 8}}})[0];
  }
  return builder.build(last);
}

// f makes a; w overwrites it with b; g reads b, r reads x only.
Graph in_place() {
  GraphBuilder builder("in place", DataType::kFloat32);
  const TensorId x = builder.add_input_bytes("x", 8, true);
  const TensorId a =
      builder.add_custom({.name = "f", .inputs = {x}, .outputs = {{.name = "a", .bytes = 8}}})[0];
  const TensorId r = builder.add_custom(
      {.name = "r", .inputs = {a}, .outputs = {{.name = "r.out", .bytes = 8}}})[0];
  const TensorId b = builder.add_custom({.name = "w",
                                         .inputs = {a},
                                         .outputs = {{.name = "b", .bytes = 8, .view_of = a}},
                                         .in_place = true})[0];
  return builder.build(builder.add_custom(
      {.name = "loss", .inputs = {b, r}, .outputs = {{.name = "z", .bytes = 4}}})[0]);
}

TensorId named(const Graph& graph, const std::string& name) {
  for (std::size_t i = 0; i < graph.tensors.size(); ++i) {
    if (graph.tensors[i].name == name) return static_cast<TensorId>(i);
  }
  return kNoTensor;
}

std::string refusal(const Graph& graph, std::vector<Region> regions,
                    const std::vector<int>& order = {}) {
  Plan plan = keep_all_plan(graph);
  if (!order.empty()) {
    plan.order.clear();
    for (const int op : order) plan.order.push_back(static_cast<OpId>(op));
  }
  plan.regions = std::move(regions);
  try {
    check_plan(graph, plan);
  } catch (const InputError& error) {
    return error.what();
  }
  return "accepted";
}

}  // namespace

TEST_CASE("the plan that keeps everything is the graph's order and no region") {
  const Graph graph = chain();
  const Plan plan = keep_all_plan(graph);
  CHECK(plan.algorithm == "none");
  CHECK(plan.order == std::vector<OpId>{OpId{0}, OpId{1}, OpId{2}, OpId{3}});
  CHECK(plan.regions.empty());
  CHECK(refusal(graph, {}) == "accepted");
}

TEST_CASE("an order is a topological order of all ops") {
  const Graph graph = chain();
  CHECK(refusal(graph, {}, {0, 1, 2}) == "plan: its order has 3 ops, the graph has 4");
  CHECK(refusal(graph, {}, {0, 1, 2, 4}) == "plan: op number 4 is not in the graph");
  CHECK(refusal(graph, {}, {0, 1, 2, -1}) == "plan: op number -1 is not in the graph");
  CHECK(refusal(graph, {}, {0, 1, 1, 2}) == "plan: op 'f1' is ordered twice");
  CHECK(refusal(graph, {}, {0, 2, 1, 3}) ==
        "plan: op 'f2' comes before 'f1', which makes its input 't1'");
}

TEST_CASE("regions are not empty, do not overlap and stay within their parent") {
  const Graph graph = chain();
  CHECK(refusal(graph, {{.begin = 0, .end = 2}, {.begin = 2, .end = 4}}) == "accepted");
  CHECK(refusal(graph, {{.begin = 0, .end = 3, .inner = {{.begin = 1, .end = 3}}}}) == "accepted");
  CHECK(refusal(graph, {{.begin = 1, .end = 1}}) == "plan: region [1, 1) is empty");
  CHECK(refusal(graph, {{.begin = 2, .end = 1}}) == "plan: region [2, 1) is empty");
  CHECK(refusal(graph, {{.begin = -1, .end = 2}}) ==
        "plan: region [-1, 2) overlaps its neighbour or leaves [0, 4)");
  CHECK(refusal(graph, {{.begin = 2, .end = 5}}) ==
        "plan: region [2, 5) overlaps its neighbour or leaves [0, 4)");
  CHECK(refusal(graph, {{.begin = 0, .end = 2}, {.begin = 1, .end = 3}}) ==
        "plan: region [1, 3) overlaps its neighbour or leaves [0, 4)");
  CHECK(refusal(graph, {{.begin = 2, .end = 3}, {.begin = 0, .end = 1}}) ==
        "plan: region [0, 1) overlaps its neighbour or leaves [0, 4)");
  CHECK(refusal(graph, {{.begin = 1, .end = 3, .inner = {{.begin = 0, .end = 2}}}}) ==
        "plan: region [0, 2) overlaps its neighbour or leaves [1, 3)");
}

TEST_CASE("a keep list names what its region makes, on outermost regions only") {
  const Graph graph = chain();
  const TensorId t1 = named(graph, "t1");
  CHECK(refusal(graph, {{.begin = 0, .end = 2, .keep = {t1}}}) == "accepted");
  CHECK(refusal(graph, {{.begin = 2, .end = 4, .keep = {t1}}}) ==
        "plan: region [2, 4) keeps 't1', which it does not make");
  CHECK(refusal(graph, {{.begin = 0, .end = 2, .keep = {named(graph, "x")}}}) ==
        "plan: region [0, 2) keeps 'x', which it does not make");
  CHECK(refusal(graph, {{.begin = 0, .end = 2, .keep = {TensorId{99}}}}) ==
        "plan: region [0, 2) keeps tensor number 99, which is not in the graph");
  CHECK(refusal(graph, {{.begin = 0, .end = 3, .inner = {{.begin = 1, .end = 3, .keep = {t1}}}}}) ==
        "plan: region [1, 3) has a keep list, which only outermost regions may have");
}

TEST_CASE("an order may not move an in-place op before a reader of the old value") {
  const Graph graph = in_place();  // f r w loss
  CHECK(refusal(graph, {}, {0, 1, 2, 3}) == "accepted");
  CHECK(refusal(graph, {}, {0, 2, 1, 3}) == "op 'w' overwrites 'a', which op 'r' reads later");
}

TEST_CASE("a region may not need again what an in-place op overwrote") {
  const Graph graph = in_place();
  // Made again and overwritten again, or not in the region at all: the same numbers.
  CHECK(refusal(graph, {{.begin = 0, .end = 3}}) == "accepted");
  CHECK(refusal(graph, {{.begin = 0, .end = 1}}) == "accepted");
  CHECK(refusal(graph, {{.begin = 1, .end = 2}}) ==
        "plan: the recompute of region [1, 2) would read 'a' again, but op 'w' overwrites 'a'");
  CHECK(refusal(graph, {{.begin = 2, .end = 3}}) ==
        "plan: the recompute of region [2, 3) would read 'a' again, but op 'w' overwrites 'a'");
}

TEST_CASE("what an op overwrites cannot be kept; what it makes of it can") {
  const Graph graph = in_place();
  CHECK(refusal(graph, {{.begin = 0, .end = 3, .keep = {named(graph, "a")}}}) ==
        "plan: region [0, 3) keeps 'a', which op 'w' overwrites");
  CHECK_NOTHROW(check_plan(graph, {.order = keep_all_plan(graph).order,
                                   .regions = {{.end = 3, .keep = {named(graph, "b")}}}}));
}

TEST_CASE("extents have the names of the documentation") {
  CHECK(extent_name(Extent::kNeeded) == "needed");
  CHECK(extent_name(Extent::kPrefix) == "prefix");
  CHECK(extent_name(Extent::kWhole) == "whole");
}

}  // namespace cairn
