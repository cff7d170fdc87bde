#include "planner/planner.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <string>

#include "graph/error.h"
#include "graph/graph_builder.h"
#include "graph/schedule.h"
#include "sim/simulator.h"
#include "sim/validator.h"

namespace cairn {
namespace {

struct LayerOp {
  std::string name = {};  // of the op and of its output, of 1 byte
  std::vector<std::string> inputs = {};
  std::int32_t block = -1;
};

// Every op saves its inputs. "x" is an input with a gradient, "ids" one without, 1 byte each.
Graph graph_of(const std::vector<LayerOp>& ops, const std::string& loss) {
  GraphBuilder builder("graph", DataType::kFloat32);
  builder.add_input_bytes("x", 1, true);
  builder.add_input_bytes("ids", 1, false);
  for (const LayerOp& op : ops) {
    CustomOp custom{.name = op.name,
                    .outputs = {{.name = op.name, .bytes = 1}},
                    .saved = op.inputs,
                    .block = op.block};
    for (const std::string& input : op.inputs) custom.inputs.push_back(builder.find(input));
    builder.add_custom(custom);
  }
  return builder.build(builder.find(loss));
}

// Three layers of two ops between an embedding and a loss.
Graph three_layers() {
  return graph_of({{"embed", {"x"}},
                   {"a0", {"embed"}, 0},
                   {"b0", {"a0"}, 0},
                   {"a1", {"b0"}, 1},
                   {"b1", {"a1"}, 1},
                   {"a2", {"b1"}, 2},
                   {"b2", {"a2"}, 2},
                   {"loss", {"b2"}}},
                  "loss");
}

// "[1,3) [3,5)": the regions of a plan, which must be flat and keep nothing.
std::string regions_text(const Plan& plan) {
  std::string text;
  for (const Region& region : plan.regions) {
    CHECK(region.keep.empty());
    CHECK(region.inner.empty());
    text += fmt::format("{}[{},{})", text.empty() ? "" : " ", region.begin, region.end);
  }
  return text;
}

std::string regions_of(const Graph& graph, const std::string& strategy) {
  const Plan plan = make_plan(graph, parse_strategy(strategy), Extent::kNeeded);
  CHECK_NOTHROW(check_plan(graph, plan));
  return regions_text(plan);
}

std::string layers_of(const Graph& graph) {
  std::string text;
  for (const auto& [begin, end] : layer_ranges(graph)) {
    text += fmt::format("{}[{},{})", text.empty() ? "" : " ", begin, end);
  }
  return text;
}

std::string refusal_of(const std::string& strategy) {
  try {
    parse_strategy(strategy);
  } catch (const InputError& error) {
    return error.what();
  }
  return "accepted";
}

// n equal layers of 1 ns, each 1 byte and saving its input, then a loss of no bytes that saves its
// own: x0 -> f0 -> x1 -> f1 -> ... -> xn -> loss.
Graph equal_layers(std::int32_t n) {
  GraphBuilder builder("chain", DataType::kFloat32);
  TensorId x = builder.add_input_bytes("x0", 1, true);
  for (std::int32_t i = 0; i < n; ++i) {
    x = builder.add_custom({.name = fmt::format("f{}", i),
                            .inputs = {x},
                            .outputs = {{.name = fmt::format("x{}", i + 1), .bytes = 1}},
                            .saved = {fmt::format("x{}", i)},
                            .forward = {.time_ns = 1},
                            .block = i})[0];
  }
  return builder.build(builder.add_custom({.name = "loss",
                                           .inputs = {x},
                                           .outputs = {{.name = "loss", .bytes = 0}},
                                           .saved = {fmt::format("x{}", n)}})[0]);
}

struct Outcome {
  std::int64_t peak_bytes = 0;
  std::int64_t recompute_count = 0;
};

// Lowers, validates and replays; no op may be recomputed twice.
Outcome outcome_of(const Graph& graph, const std::string& strategy) {
  const Plan plan = make_plan(graph, parse_strategy(strategy), Extent::kNeeded);
  const Schedule schedule = lower(graph, plan);
  const ValidationResult verdict = validate(graph, plan, schedule);
  CHECK_MESSAGE(verdict.fault == Fault::kNone, verdict.message);
  std::vector<int> recomputes(graph.ops.size(), 0);
  for (const Step& step : schedule.steps) {
    if (step.kind == StepKind::kRecompute) ++recomputes[index(step.op)];
  }
  for (const int count : recomputes) CHECK(count <= 1);
  const Trace trace = simulate(graph, plan, schedule);
  return {.peak_bytes = trace.peak_bytes, .recompute_count = trace.recompute_count};
}

}  // namespace

TEST_CASE("strategies are read and named back") {
  CHECK(strategy_name(parse_strategy("none")) == "none");
  CHECK(strategy_name(parse_strategy("every-layer")) == "every-layer");
  CHECK(strategy_name(parse_strategy("uniform:4")) == "uniform:4");
  CHECK(strategy_name(parse_strategy("sqrt")) == "sqrt");
  CHECK(parse_strategy("uniform:4").layers_per_region == 4);
  CHECK(join_names(strategy_names()) == "none, every-layer, uniform:K, sqrt");
}

TEST_CASE("a strategy that is none is explained") {
  CHECK(refusal_of("sqr") ==
        "strategy 'sqr': expected one of none, every-layer, uniform:K, sqrt; did you mean 'sqrt'?");
  CHECK(refusal_of("unifrom:4") ==
        "strategy 'unifrom:4': expected one of none, every-layer, uniform:K, sqrt; did you mean "
        "'uniform:K'?");
  CHECK(refusal_of("") == "strategy '': expected one of none, every-layer, uniform:K, sqrt");
  CHECK(refusal_of("uniform") ==
        "strategy 'uniform': expected the layers of a region, as in 'uniform:4'");
  CHECK(refusal_of("uniform:") ==
        "strategy 'uniform:': expected the layers of a region, as in 'uniform:4'");
  CHECK(refusal_of("uniform:0") ==
        "strategy 'uniform:0': expected at least 1 layer in a region, found 0");
  CHECK(refusal_of("uniform:-2") ==
        "strategy 'uniform:-2': expected at least 1 layer in a region, found -2");
  CHECK(refusal_of("uniform:x") ==
        "strategy 'uniform:x': expected a whole number of layers, as in 'uniform:4', found 'x'");
  CHECK(refusal_of("uniform:1.5") ==
        "strategy 'uniform:1.5': expected a whole number of layers, as in 'uniform:4', found "
        "'1.5'");
  CHECK(refusal_of("uniform:99999999999999999999") ==
        "strategy 'uniform:99999999999999999999': expected a number of layers within 64 bits");
  CHECK(refusal_of("sqrt:3") ==
        "strategy 'sqrt:3': 'sqrt' takes no number; did you mean 'uniform:K'?");
}

TEST_CASE("repeated blocks are the layers, and regions are groups of them") {
  const Graph graph = three_layers();
  CHECK(layers_of(graph) == "[1,3) [3,5) [5,7)");
  CHECK(regions_of(graph, "none").empty());
  CHECK(regions_of(graph, "every-layer") == "[1,3) [3,5) [5,7)");
  CHECK(regions_of(graph, "uniform:1") == "[1,3) [3,5) [5,7)");
  CHECK(regions_of(graph, "uniform:2") == "[1,5) [5,7)");
  CHECK(regions_of(graph, "uniform:3") == "[1,7)");
  CHECK(regions_of(graph, "sqrt") == "[1,5) [5,7)");  // ceil(sqrt(3)) = 2
}

TEST_CASE("a region of more layers than there are holds them all") {
  const Graph graph = three_layers();
  CHECK(regions_of(graph, "uniform:4") == "[1,7)");
  CHECK(regions_of(graph, "uniform:9223372036854775807") == "[1,7)");
}

TEST_CASE("a plan carries its strategy's name and its extent") {
  const Graph graph = three_layers();
  for (const char* name : {"none", "every-layer", "uniform:2", "sqrt"}) {
    const Plan plan = make_plan(graph, parse_strategy(name), Extent::kPrefix);
    CHECK(plan.algorithm == name);
    CHECK(plan.extent == Extent::kPrefix);
    CHECK(plan.order.size() == 8);
  }
  CHECK(plan_uniform(graph, 2, Extent::kWhole).algorithm == "uniform:2");
  CHECK(plan_sqrt(graph, Extent::kWhole).algorithm == "sqrt");
}

TEST_CASE("a region that would end the whole order is left out") {
  const std::vector<LayerOp> ops = {
      {"embed", {"x"}}, {"a0", {"embed"}, 0}, {"a1", {"a0"}, 1}, {"loss", {"a1"}, 2}};
  const Graph graph = graph_of(ops, "loss");
  CHECK(regions_of(graph, "every-layer") == "[1,2) [2,3)");
  CHECK(regions_of(graph, "uniform:2") == "[1,3)");
  CHECK(regions_of(graph, "uniform:3").empty());
}

TEST_CASE("what comes behind without a Backward does not make a region worth while") {
  const Graph graph = graph_of(
      {{"embed", {"x"}}, {"a0", {"embed"}, 0}, {"loss", {"a0"}, 1}, {"accuracy", {"a0"}}}, "loss");
  CHECK(regions_of(graph, "every-layer") == "[1,2)");
}

TEST_CASE("blocks that interleave are one layer") {
  const Graph graph = graph_of({{"a0", {"x"}, 0},
                                {"a1", {"x"}, 1},
                                {"b0", {"a0"}, 0},
                                {"b1", {"a1"}, 1},
                                {"c", {"b0", "b1"}, 2},
                                {"loss", {"c"}}},
                               "loss");
  CHECK(layers_of(graph) == "[0,4) [4,5)");
  CHECK(regions_of(graph, "every-layer") == "[0,4) [4,5)");
}

TEST_CASE("without blocks, layers end behind articulation ops") {
  // A chain: b and c are articulation points.
  const Graph chain = graph_of({{"a", {"x"}}, {"b", {"a"}}, {"c", {"b"}}, {"loss", {"c"}}}, "loss");
  CHECK(layers_of(chain) == "[0,2) [2,3) [3,4)");
  CHECK(regions_of(chain, "every-layer") == "[0,2) [2,3)");
  // A skip from embed to add.
  const Graph skip = graph_of({{"embed", {"x"}},
                               {"norm", {"embed"}},
                               {"attn", {"norm"}},
                               {"add", {"embed", "attn"}},
                               {"head", {"add"}},
                               {"loss", {"head"}}},
                              "loss");
  CHECK(layers_of(skip) == "[0,4) [4,5) [5,6)");
  CHECK(regions_of(skip, "uniform:2") == "[0,5)");
}

TEST_CASE("without blocks, layers begin at the first op with a Backward and end at the last") {
  const Graph graph = graph_of(
      {{"mask", {"ids"}}, {"a", {"x", "mask"}}, {"b", {"a"}}, {"loss", {"b"}}, {"accuracy", {"b"}}},
      "loss");
  CHECK(layers_of(graph) == "[1,3) [3,4)");
  CHECK(regions_of(graph, "every-layer") == "[1,3)");
}

TEST_CASE("a graph in which nothing is trained has no layers") {
  const Graph graph = graph_of({{"a", {"ids"}}, {"loss", {"a"}}}, "loss");
  CHECK(layers_of(graph).empty());
  for (const char* name : {"every-layer", "uniform:2", "sqrt"}) {
    CHECK(regions_of(graph, name).empty());
  }
}

TEST_CASE("sqrt on equal layers peaks at about 2 sqrt(n) for less than one forward") {
  // k = ceil(sqrt(n)) layers a region. The peak is at the first Backward of a region: the inputs of
  // that region and of those before it, the k - 1 inputs it recomputed, 2 gradients.
  struct Expected {
    std::int32_t n = 0;
    std::int64_t peak_bytes = 0;
    std::int64_t recompute_count = 0;
  };
  const std::vector<Expected> table = {
      {1, 3, 0},        // 1 region:  1 + 0 + 2
      {2, 4, 1},        // 2:         1 + 1 + 2
      {3, 4, 1},        // 2 1:       1 + 1 + 2, and 2 + 0 + 2
      {4, 5, 2},        // 2 2:       2 + 1 + 2
      {10, 7, 7},       // 4 4 2:     2 + 3 + 2; reruns 3 + 3 + 1
      {100, 21, 90},    // 10 of 10:  10 + 9 + 2; reruns 10 * 9
      {1000, 64, 968},  // 31 of 32 and one of 8: 31 + 31 + 2; reruns 31 * 31 + 7
  };
  for (const Expected& expected : table) {
    CAPTURE(expected.n);
    const Graph graph = equal_layers(expected.n);
    const Outcome outcome = outcome_of(graph, "sqrt");
    CHECK(outcome.peak_bytes == expected.peak_bytes);
    CHECK(outcome.recompute_count == expected.recompute_count);
    CHECK(outcome.recompute_count < expected.n);
  }
}

TEST_CASE("1,000 equal layers: 64 units with sqrt, 1,002 without") {
  const Graph graph = equal_layers(1000);
  // x0 to x1000 are 1001, and the first gradient.
  CHECK(outcome_of(graph, "none").peak_bytes == 1002);
  CHECK(outcome_of(graph, "sqrt").peak_bytes == 64);
  // A layer that saves but its input keeps all when it is a region of its own.
  CHECK(outcome_of(graph, "every-layer").peak_bytes == 1002);
  CHECK(outcome_of(graph, "every-layer").recompute_count == 0);
  // One region of all: x0, the 999 recomputed inputs, 2 gradients.
  CHECK(outcome_of(graph, "uniform:1000").peak_bytes == 1002);
  CHECK(outcome_of(graph, "uniform:1000").recompute_count == 999);
  // 20 regions of 50: 20 + 49 + 2. 50 of 20: 50 + 19 + 2.
  CHECK(outcome_of(graph, "uniform:50").peak_bytes == 71);
  CHECK(outcome_of(graph, "uniform:20").peak_bytes == 71);
}

}  // namespace cairn
