// A Backward that writes a gradient over what it saved (docs/accounting.md, rule 11).

#include <doctest/doctest.h>

#include "graph/error.h"
#include "graph/graph_builder.h"
#include "graph/plan.h"
#include "tests/sim/timeline.h"

namespace cairn {
namespace {

using test::timeline;

using Places = std::vector<std::pair<std::string, std::string>>;

// in 4 -> f -> a 6 -> g -> b 6 -> loss 1; g saves a, or writes over it.
Graph chain(const Places& places) {
  GraphBuilder builder("chain", DataType::kFloat32);
  const TensorId in = builder.add_input_bytes("in", 4, true);
  const TensorId a = builder.add_custom(
      {.name = "f", .inputs = {in}, .outputs = {{.name = "a", .bytes = 6}}, .saved = {"in"}})[0];
  const TensorId b = builder.add_custom({.name = "g",
                                         .inputs = {a},
                                         .outputs = {{.name = "b", .bytes = 6}},
                                         .saved = {"a"},
                                         .gradient_places = places})[0];
  return builder.build(builder.add_custom(
      {.name = "loss", .inputs = {b}, .outputs = {{.name = "l", .bytes = 1}}, .saved = {"b"}})[0]);
}

std::string backward(const Graph& graph) {
  return test::backward_timeline(graph, keep_all_plan(graph));
}

TEST_CASE("a gradient written over a saved tensor costs nothing, and keeps its bytes") {
  // B loss: in 4, a 6, b 6, gradients of l 1 and b 6; B g without places: in, a, two
  // gradients.
  CHECK(backward(chain({})) == "B loss 23/16, B g 22/10, B f 14/8");
  CHECK(backward(chain({{"a", "a"}})) == "B loss 23/16, B g 16/10, B f 14/8");
}

// x 4, w 8 -> fused -> l 1, which makes the gradients of both in forward.
Graph fused(bool read_twice) {
  GraphBuilder builder("fused", DataType::kFloat32);
  const TensorId in = builder.add_input_bytes("in", 4, true);
  const TensorId w = builder.add_parameter_bytes("w", 8, true);
  std::vector<TensorId> inputs = {in, w};
  TensorId x = in;
  if (read_twice) {
    x = builder.add_custom({.name = "words",
                            .inputs = {in, w},
                            .outputs = {{.name = "x", .bytes = 4}},
                            .saved = {"in"}})[0];
  }
  return builder.build(
      builder.add_custom({.name = "fused",
                          .inputs = {x, w},
                          .outputs = {{.name = "l", .bytes = 1}},
                          .auxiliaries = {{.name = "gx", .bytes = 4}, {.name = "gw", .bytes = 8}},
                          .saved = {"gx", "gw"},
                          .gradient_places = {{read_twice ? "x" : "in", "gx"}, {"w", "gw"}},
                          .workspace_bytes = 100})[0]);
}

TEST_CASE("gradients made in forward are held, and become the gradients") {
  const Graph graph = fused(false);
  // in 4, w 8, l 1, gx 4, gw 8 and the workspace; then l's own gradient.
  CHECK(timeline(graph, keep_all_plan(graph)) == "C fused 125/24, B fused 25/24");
}

TEST_CASE("a later contribution to such a gradient is added in place") {
  const Graph graph = fused(true);
  // B words: in 4, w 8, gradients of x 4 and w 8, the contribution 8, the gradient of in 4.
  CHECK(timeline(graph, keep_all_plan(graph)) ==
        "C words 16/16, C fused 129/24, B fused 25/24, B words 36/24");
}

std::string refusal_of(const CustomOp& second, const std::string& also_reads = "") {
  GraphBuilder builder("refused", DataType::kFloat32);
  const TensorId in = builder.add_input_bytes("in", 4, true);
  const TensorId a =
      builder.add_custom({.name = "f", .inputs = {in}, .outputs = {{.name = "a", .bytes = 4}}})[0];
  CustomOp op = second;
  op.name = "g";
  op.inputs = {a};
  op.outputs = {{.name = "b", .bytes = 4}};
  TensorId loss = builder.add_custom(op)[0];
  if (!also_reads.empty()) {
    loss = builder.add_custom({.name = "h",
                               .inputs = {loss, builder.find(also_reads)},
                               .outputs = {{.name = "l", .bytes = 1}}})[0];
  }
  try {
    builder.build(loss);
  } catch (const InputError& error) {
    return error.what();
  }
  return "accepted";
}

TEST_CASE("a Backward writes over nothing that something else needs") {
  const std::string what = "op 'g': its Backward writes the gradient of 'a' over ";
  CHECK(refusal_of({.saved = {"a"}, .gradient_places = {{"a", "a"}}}) == "accepted");
  CHECK(refusal_of({.gradient_places = {{"a", "a"}}}) == what + "'a', which it does not save");
  CHECK(refusal_of({.saved = {"a"}, .gradient_places = {{"a", "a"}}}, "a") ==
        what + "'a', which something else still reads");
  CHECK(refusal_of({.auxiliaries = {{.name = "x", .bytes = 3}},
                    .saved = {"x"},
                    .gradient_places = {{"a", "x"}}}) ==
        what + "'x', but they are of 4 and 3 bytes");
}

}  // namespace
}  // namespace cairn
