// Schedules as text: C compute, R recompute, B backward, F free, FG free a gradient.

#include <doctest/doctest.h>

#include <string>
#include <utility>
#include <vector>

#include "graph/error.h"
#include "graph/graph_builder.h"
#include "graph/schedule.h"

namespace cairn {
namespace {

struct TestOp {
  std::string name = {};
  std::vector<std::string> inputs = {};
  std::string output = {};
  std::vector<std::string> saved = {};
  std::vector<std::string> auxiliaries = {};
  std::string view_of = {};
  bool in_place = false;
  RecomputePolicy recompute = RecomputePolicy::kYes;
};

// Ops on "x", which has a gradient, and the trainable "W"; every tensor has 8 bytes. The last op
// makes the loss.
Graph graph_of(const std::vector<TestOp>& ops) {
  GraphBuilder builder("test", DataType::kFloat32);
  builder.add_input_bytes("x", 8, true);
  builder.add_parameter_bytes("W", 8, true);
  TensorId loss = kNoTensor;
  for (const TestOp& op : ops) {
    CustomOp custom{.name = op.name,
                    .outputs = {{.name = op.output, .bytes = 8}},
                    .saved = op.saved,
                    .recompute = op.recompute,
                    .in_place = op.in_place};
    if (!op.view_of.empty()) custom.outputs[0].view_of = builder.find(op.view_of);
    for (const std::string& input : op.inputs) custom.inputs.push_back(builder.find(input));
    for (const std::string& name : op.auxiliaries) {
      custom.auxiliaries.push_back({.name = name, .bytes = 8});
    }
    loss = builder.add_custom(custom)[0];
  }
  return builder.build(loss);
}

TensorId named(const Graph& graph, const std::string& name) {
  for (std::size_t i = 0; i < graph.tensors.size(); ++i) {
    if (graph.tensors[i].name == name) return static_cast<TensorId>(i);
  }
  FAIL("no tensor " << name);
  return kNoTensor;
}

Schedule lowered(const Graph& graph, std::vector<Region> regions, Extent extent) {
  Plan plan = keep_all_plan(graph);
  plan.regions = std::move(regions);
  plan.extent = extent;
  return lower(graph, plan);
}

std::string steps(const Graph& graph, std::vector<Region> regions,
                  Extent extent = Extent::kNeeded) {
  std::string text;
  for (const Step& step : lowered(graph, std::move(regions), extent).steps) {
    text += (text.empty() ? "" : ", ") + step_text(graph, step);
  }
  return text;
}

// The recomputed ops only, with a ',' where a Backward stands between.
std::string recomputed(const Graph& graph, std::vector<Region> regions, Extent extent) {
  std::string text;
  bool is_interrupted = false;
  for (const Step& step : lowered(graph, std::move(regions), extent).steps) {
    if (step.kind == StepKind::kBackward) is_interrupted = !text.empty();
    if (step.kind != StepKind::kRecompute) continue;
    if (!text.empty()) text += is_interrupted ? ", " : " ";
    text += graph.op(step.op).name;
    is_interrupted = false;
  }
  return text;
}

std::string warnings(const Graph& graph, std::vector<Region> regions) {
  std::string text;
  for (const std::string& warning : lowered(graph, std::move(regions), Extent::kNeeded).warnings) {
    text += warning + "\n";
  }
  return text;
}

// Three ops that save their inputs: f x -> a, g a -> b, loss b -> z.
std::vector<TestOp> three() {
  return {{.name = "f", .inputs = {"x"}, .output = "a", .saved = {"x"}},
          {.name = "g", .inputs = {"a"}, .output = "b", .saved = {"a"}},
          {.name = "loss", .inputs = {"b"}, .output = "z", .saved = {"b"}}};
}

}  // namespace

TEST_CASE("keep-all frees a tensor behind its last reader, and a gradient behind its producer") {
  const Graph graph = graph_of(three());
  CHECK(steps(graph, {}) == "C f, C g, C loss, F z, B loss, F b, FG z, B g, F a, FG b, B f, FG a");
}

TEST_CASE("a region's tensors die in forward and are made again before they are read") {
  const Graph graph = graph_of(three());
  CHECK(steps(graph, {{.begin = 0, .end = 2}}) ==
        "C f, C g, F a, C loss, F z, B loss, F b, FG z, R f, B g, F a, FG b, B f, FG a");
}

TEST_CASE("a tensor that nobody reads dies in the step that makes it") {
  std::vector<TestOp> ops = three();
  ops[0].auxiliaries = {"unread"};
  CHECK(steps(graph_of(ops), {}).starts_with("C f, F unread, C g"));
}

TEST_CASE("ops off the loss's path have no Backward") {
  std::vector<TestOp> ops = three();
  ops.insert(ops.begin() + 1, {.name = "aside", .inputs = {"a"}, .output = "s", .saved = {"a"}});
  CHECK(steps(graph_of(ops), {}) ==
        "C f, C aside, F s, C g, C loss, F z, B loss, F b, FG z, B g, F a, FG b, B f, FG a");
}

TEST_CASE("a region is recomputed at the first Backward that reads what it dropped, not before") {
  // add saves nothing, so its Backward needs no recompute (example X2).
  const Graph graph = graph_of({{.name = "norm", .inputs = {"x"}, .output = "n", .saved = {"x"}},
                                {.name = "lin", .inputs = {"n"}, .output = "l", .saved = {"n"}},
                                {.name = "add", .inputs = {"x", "l"}, .output = "h"},
                                {.name = "loss", .inputs = {"h"}, .output = "z", .saved = {"h"}}});
  CHECK(steps(graph, {{.begin = 0, .end = 3}}) ==
        "C norm, C lin, F n, C add, F l, C loss, F z, B loss, F h, FG z, B add, FG h, R norm, "
        "B lin, F n, FG l, B norm, FG n");
  CHECK(recomputed(graph, {{.begin = 0, .end = 3}}, Extent::kPrefix) == "norm");
  CHECK(recomputed(graph, {{.begin = 0, .end = 3}}, Extent::kWhole) == "norm lin add");
}

TEST_CASE("a dead op in the middle runs again under prefix, not under needed") {
  // Example X6.
  const Graph graph = graph_of({{.name = "fa", .inputs = {"x"}, .output = "a", .saved = {"x"}},
                                {.name = "neg", .inputs = {"a"}, .output = "b"},
                                {.name = "sin", .inputs = {"a"}, .output = "c", .saved = {"a"}},
                                {.name = "sub", .inputs = {"b", "c"}, .output = "y"},
                                {.name = "loss", .inputs = {"y"}, .output = "z", .saved = {"y"}}});
  const std::vector<Region> first_three = {{.begin = 0, .end = 3}};
  CHECK(recomputed(graph, first_three, Extent::kNeeded) == "fa");
  CHECK(recomputed(graph, first_three, Extent::kPrefix) == "fa neg");
  CHECK(recomputed(graph, first_three, Extent::kWhole) == "fa neg sin");
}

TEST_CASE("a storage dies with its last alias") {
  // v is a view of a; the loss saves v only. Each tensor's free is its own step.
  const Graph graph = graph_of({{.name = "f", .inputs = {"x"}, .output = "a", .saved = {"x"}},
                                {.name = "view", .inputs = {"a"}, .output = "v", .view_of = "a"},
                                {.name = "loss", .inputs = {"v"}, .output = "z", .saved = {"v"}}});
  CHECK(steps(graph, {}) ==
        "C f, C view, F a, C loss, F z, B loss, F v, FG z, B view, FG v, B f, FG a");
  // The loss holds v, and so the storage: nothing is made again.
  CHECK(steps(graph, {{.begin = 0, .end = 2}}) ==
        "C f, C view, F a, C loss, F z, B loss, F v, FG z, B view, FG v, B f, FG a");
}

TEST_CASE("a dropped view is made again with what it is a view of") {
  const Graph graph = graph_of({{.name = "f", .inputs = {"x"}, .output = "a", .saved = {"x"}},
                                {.name = "view", .inputs = {"a"}, .output = "v", .view_of = "a"},
                                {.name = "g", .inputs = {"v"}, .output = "b", .saved = {"v"}},
                                {.name = "loss", .inputs = {"b"}, .output = "z"}});
  CHECK(steps(graph, {{.begin = 0, .end = 3}}) ==
        "C f, C view, F a, C g, F v, C loss, F b, F z, B loss, FG z, R f, R view, F a, B g, F v, "
        "FG b, B view, FG v, B f, FG a");
}

TEST_CASE("an in-place op is run again with what it overwrites") {
  const Graph graph = graph_of({{.name = "f", .inputs = {"x"}, .output = "a", .saved = {"x"}},
                                {.name = "relu",
                                 .inputs = {"a"},
                                 .output = "b",
                                 .saved = {"b"},
                                 .view_of = "a",
                                 .in_place = true},
                                {.name = "loss", .inputs = {"b"}, .output = "z"}});
  CHECK(steps(graph, {{.begin = 0, .end = 2}}) ==
        "C f, C relu, F a, C loss, F b, F z, B loss, FG z, R f, R relu, F a, B relu, F b, FG b, "
        "B f, FG a");
}

TEST_CASE("a kept tensor is not made again") {
  const Graph graph = graph_of(three());
  const Region region{.begin = 0, .end = 2, .keep = {named(graph, "a")}};
  CHECK(steps(graph, {region}) ==
        "C f, C g, C loss, F z, B loss, F b, FG z, B g, F a, FG b, B f, FG a");
  CHECK(warnings(graph, {region}).empty());
}

TEST_CASE("to keep what nothing reads is an error") {
  std::vector<TestOp> ops = three();
  ops[2].saved = {};
  const Graph graph = graph_of(ops);
  std::string message = "accepted";
  try {
    steps(graph, {{.begin = 0, .end = 2, .keep = {named(graph, "b")}}});
  } catch (const InputError& error) {
    message = error.what();
  }
  CHECK(message == "plan: region [0, 2) keeps 'b', which no Backward and no recompute reads");
}

TEST_CASE("keeping one of two outputs runs the op again and pays for both") {
  std::vector<TestOp> ops = three();
  ops[1] = {
      .name = "att", .inputs = {"a"}, .output = "b", .saved = {"b", "lse"}, .auxiliaries = {"lse"}};
  const Graph graph = graph_of(ops);
  const TensorId b = named(graph, "b");
  const TensorId lse = named(graph, "lse");
  CHECK(warnings(graph, {{.begin = 0, .end = 2, .keep = {b}}}) ==
        "'b' is kept, but op 'att' runs again all the same\n");
  CHECK(recomputed(graph, {{.begin = 0, .end = 2, .keep = {b}}}, Extent::kNeeded) == "f att");
  CHECK(warnings(graph, {{.begin = 0, .end = 2, .keep = {b, lse}}}).empty());
  CHECK(recomputed(graph, {{.begin = 0, .end = 2, .keep = {b, lse}}}, Extent::kNeeded).empty());
}

TEST_CASE("what an op makes that may not run twice is kept") {
  std::vector<TestOp> ops = three();
  ops[0].recompute = RecomputePolicy::kNever;
  const Graph graph = graph_of(ops);
  CHECK(steps(graph, {{.begin = 0, .end = 2}}) ==
        "C f, C g, C loss, F z, B loss, F b, FG z, B g, F a, FG b, B f, FG a");
  CHECK(warnings(graph, {{.begin = 0, .end = 2}}) == "'a' is kept: op 'f' may not be recomputed\n");
}

TEST_CASE("a region whose input is dropped waits for the region that makes it") {
  const Graph graph = graph_of(three());
  // ((f) (g)): R f for g's input, then the inner regions at their own Backwards.
  CHECK(recomputed(
            graph,
            {{.begin = 0, .end = 2, .inner = {{.begin = 0, .end = 1}, {.begin = 1, .end = 2}}}},
            Extent::kNeeded) == "f");
}

// Six layers tanh(W x): a linear op that saves its input and W, a tanh that saves its output.
// The counts of docs/accounting.md, section 5. A region (0 1) holds both ops of layers 0 and 1.
Graph six_layers() {
  std::vector<TestOp> ops;
  std::string last = "x";
  for (int i = 0; i < 6; ++i) {
    const std::string number = std::to_string(i);
    ops.push_back({.name = "lin" + number,
                   .inputs = {last, "W"},
                   .output = "l" + number,
                   .saved = {last, "W"}});
    ops.push_back({.name = number,
                   .inputs = {"l" + number},
                   .output = "t" + number,
                   .saved = {"t" + number}});
    last = "t" + number;
  }
  ops.push_back({.name = "sum", .inputs = {last}, .output = "z"});
  return graph_of(ops);
}

Region layers(std::int32_t begin, std::int32_t end, std::vector<Region> inner = {}) {
  return {.begin = 2 * begin, .end = 2 * end, .inner = std::move(inner)};
}

// Recomputed layers, by their tanh.
std::string recomputed_layers(const std::vector<Region>& regions, Extent extent) {
  std::string text = recomputed(six_layers(), regions, extent);
  for (int i = 0; i < 6; ++i) {
    const std::string both = "lin" + std::to_string(i) + " " + std::to_string(i);
    for (std::size_t at = text.find(both); at != std::string::npos; at = text.find(both)) {
      text.replace(at, both.size(), std::to_string(i));
    }
  }
  return text;
}

TEST_CASE("which of six layers run again, in which order: one region a layer") {
  const std::vector<Region> regions = {layers(0, 1), layers(1, 2), layers(2, 3),
                                       layers(3, 4), layers(4, 5), layers(5, 6)};
  for (const Extent extent : {Extent::kNeeded, Extent::kPrefix, Extent::kWhole}) {
    CHECK(recomputed_layers(regions, extent) == "5, 4, 3, 2, 1, 0");
  }
}

TEST_CASE("which of six layers run again, in which order: ((0 1) 2) 3 4 5") {
  const std::vector<Region> regions = {layers(0, 3, {layers(0, 2)})};
  for (const Extent extent : {Extent::kNeeded, Extent::kPrefix, Extent::kWhole}) {
    CHECK(recomputed_layers(regions, extent) == "0 1 2, 0 1");
  }
}

TEST_CASE("which of six layers run again, in which order: ((0 1)(2 3)) 4 5") {
  const std::vector<Region> regions = {layers(0, 4, {layers(0, 2), layers(2, 4)})};
  CHECK(recomputed_layers(regions, Extent::kNeeded) == "0 1 2 3, 0 1");
  CHECK(recomputed_layers(regions, Extent::kPrefix) == "0 1 2 3, 0 1");
  CHECK(recomputed_layers(regions, Extent::kWhole) == "0 1 2 3 2 3, 0 1");
}

TEST_CASE("which of six layers run again, in which order: (0 1 (2 3)) 4 5") {
  const std::vector<Region> regions = {layers(0, 4, {layers(2, 4)})};
  CHECK(recomputed_layers(regions, Extent::kNeeded) == "0 1 2 3");
  CHECK(recomputed_layers(regions, Extent::kPrefix) == "0 1 2 3");
  CHECK(recomputed_layers(regions, Extent::kWhole) == "0 1 2 3 2 3");
}

TEST_CASE("which of six layers run again, in which order: ((0 1 2)) 3 4 5") {
  const std::vector<Region> regions = {layers(0, 3, {layers(0, 3)})};
  CHECK(recomputed_layers(regions, Extent::kNeeded) == "0 1 2");
  CHECK(recomputed_layers(regions, Extent::kPrefix) == "0 1 2");
  CHECK(recomputed_layers(regions, Extent::kWhole) == "0 1 2 0 1 2");
}

TEST_CASE("lowering checks the plan first") {
  const Graph graph = graph_of(three());
  CHECK_THROWS_AS(steps(graph, {{.begin = 2, .end = 2}}), InputError);
}

}  // namespace cairn
