// The worked examples of docs/accounting.md, section 8, step by step, to the byte.

#include <doctest/doctest.h>

#include "graph/graph_builder.h"
#include "graph/schedule.h"
#include "tests/sim/timeline.h"

namespace cairn {
namespace {

using test::backward_timeline;
using test::peak_and_extra;
using test::timeline;

struct ExampleOp {
  std::string name = {};
  std::vector<std::string> inputs = {};
  std::string output = {};
  std::int64_t bytes = 0;
  std::vector<std::string> saved = {};
  std::int64_t time_ns = 1;
  std::string auxiliary = {};
  std::int64_t auxiliary_bytes = 0;
  std::int64_t workspace_bytes = 0;
  std::optional<std::int64_t> sweep_workspace_bytes = {};
};

struct ExampleInput {
  std::string name = {};
  std::int64_t bytes = 0;
};

// The last op's output is the loss; every input has a gradient.
Graph example(const std::vector<ExampleInput>& inputs, const std::vector<ExampleOp>& ops) {
  GraphBuilder builder("example", DataType::kFloat32);
  for (const ExampleInput& input : inputs) builder.add_input_bytes(input.name, input.bytes, true);
  TensorId loss = kNoTensor;
  for (const ExampleOp& op : ops) {
    CustomOp custom{.name = op.name,
                    .outputs = {{.name = op.output, .bytes = op.bytes}},
                    .saved = op.saved,
                    .workspace_bytes = op.workspace_bytes,
                    .sweep_workspace_bytes = op.sweep_workspace_bytes,
                    .forward = {.time_ns = op.time_ns}};
    for (const std::string& input : op.inputs) custom.inputs.push_back(builder.find(input));
    if (!op.auxiliary.empty()) {
      custom.auxiliaries.push_back({.name = op.auxiliary, .bytes = op.auxiliary_bytes});
    }
    loss = builder.add_custom(custom)[0];
  }
  return builder.build(loss);
}

TensorId tensor_named(const Graph& graph, const std::string& name) {
  for (std::size_t i = 0; i < graph.tensors.size(); ++i) {
    if (graph.tensors[i].name == name) return static_cast<TensorId>(i);
  }
  FAIL("no tensor " << name);
  return kNoTensor;
}

Plan plan_of(const Graph& graph, std::vector<Region> regions, Extent extent = Extent::kNeeded) {
  Plan plan = keep_all_plan(graph);
  plan.algorithm = "example";
  plan.regions = std::move(regions);
  plan.extent = extent;
  return plan;
}

Region keeping(const Graph& graph, std::int32_t begin, std::int32_t end,
               const std::vector<std::string>& names) {
  Region region{.begin = begin, .end = end};
  for (const std::string& name : names) region.keep.push_back(tensor_named(graph, name));
  return region;
}

Graph chain_x1() {
  return example({{"x0", 10}}, {{"0", {"x0"}, "x1", 10, {"x0", "x1"}},
                                {"1", {"x1"}, "x2", 10, {"x1", "x2"}},
                                {"2", {"x2"}, "x3", 10, {"x2", "x3"}},
                                {"3", {"x3"}, "x4", 0, {"x3", "x4"}}});
}

TEST_CASE("X1: a chain of four under eight plans") {
  const Graph graph = chain_x1();
  const Region r0{.begin = 0, .end = 1};
  const Region r1{.begin = 1, .end = 2};
  const Region r2{.begin = 2, .end = 3};
  const Region r3{.begin = 3, .end = 4};
  const Region r01{.begin = 0, .end = 2};
  const Region r23{.begin = 2, .end = 4};
  CHECK(peak_and_extra(graph, plan_of(graph, {})) == "60 at B 2, extra 0");
  CHECK(peak_and_extra(graph, plan_of(graph, {r0, r1, r2})) == "60 at B 2, extra 3");
  CHECK(peak_and_extra(graph, plan_of(graph, {r0, r1, r2, r3})) == "60 at B 2, extra 4");
  CHECK(peak_and_extra(graph, plan_of(graph, {r01})) == "50 at B 2, extra 2");
  CHECK(peak_and_extra(graph, plan_of(graph, {r01, r23})) == "50 at B 2, extra 4");
  const Region nested{.begin = 0, .end = 3, .inner = {r01}};
  CHECK(peak_and_extra(graph, plan_of(graph, {nested})) == "50 at B 2, extra 5");
  const Region trailing{.begin = 0, .end = 3, .inner = {{.begin = 1, .end = 3}}};
  CHECK(peak_and_extra(graph, plan_of(graph, {trailing})) == "60 at B 2, extra 3");
  CHECK(peak_and_extra(graph, plan_of(graph, {trailing}, Extent::kWhole)).ends_with("extra 5"));
  CHECK(peak_and_extra(graph, plan_of(graph, {{.begin = 0, .end = 3}})) == "60 at B 2, extra 3");
}

TEST_CASE("X1: the timelines of (0 1) 2 3 and ((0 1) 2) 3") {
  const Graph graph = chain_x1();
  CHECK(timeline(graph, plan_of(graph, {{.begin = 0, .end = 2}})) ==
        "C 0 20/20, C 1 30/20, C 2 30/30, C 3 30/30, B 3 40/40, B 2 50/20, R 0 30/30, R 1 40/40, "
        "B 1 50/30, B 0 40/20");
  const Region nested{.begin = 0, .end = 3, .inner = {{.begin = 0, .end = 2}}};
  CHECK(timeline(graph, plan_of(graph, {nested})) ==
        "C 0 20/20, C 1 30/20, C 2 30/20, C 3 20/20, B 3 30/20, R 0 30/30, R 1 40/30, R 2 40/40, "
        "B 2 50/20, R 0 30/30, R 1 40/40, B 1 50/30, B 0 40/20");
}

Graph residual_x2() {
  return example({{"x", 8}}, {{"norm", {"x"}, "n", 8, {"x"}},
                              {"lin", {"n"}, "l", 8, {"n"}},
                              {"add", {"x", "l"}, "h", 8, {}},
                              {"loss", {"h"}, "y", 1, {"h"}}});
}

TEST_CASE("X2: a region is recomputed at the first Backward that reads what it dropped") {
  const Graph graph = residual_x2();
  CHECK(peak_and_extra(graph, plan_of(graph, {})) == "40 at B add, extra 0");
  // B(norm) adds a second contribution to the gradient of x: 24 live + 8 (rule 10).
  CHECK(timeline(graph, plan_of(graph, {{.begin = 0, .end = 3}})) ==
        "C norm 16/16, C lin 24/16, C add 24/16, C loss 17/16, B loss 25/16, B add 32/24, "
        "R norm 32/32, B lin 40/24, B norm 32/16");
  CHECK(backward_timeline(graph, plan_of(graph, {{.begin = 0, .end = 3}}, Extent::kWhole)) ==
        "B loss 25/16, R norm 24/24, R lin 32/32, R add 40/24, B add 40/32, B lin 40/24, "
        "B norm 32/16");
  CHECK(peak_and_extra(graph, plan_of(graph, {{.begin = 0, .end = 3}}, Extent::kWhole)) ==
        "40 at R add, extra 3");
}

Graph skip_x3() {
  return example({{"x", 4}}, {{"d1", {"x"}, "a", 16, {"x"}},
                              {"d2", {"a"}, "b", 8, {"a"}},
                              {"mid", {"b"}, "c", 8, {"b"}},
                              {"up", {"c"}, "e", 16, {"c"}},
                              {"cat", {"a", "e"}, "y", 32, {}},
                              {"loss", {"y"}, "l", 1, {"y"}}});
}

TEST_CASE("X3: a skip across regions lives in no region") {
  const Graph graph = skip_x3();
  CHECK(peak_and_extra(graph, plan_of(graph, {})) == "101 at B loss, extra 0");
  const Plan two = plan_of(graph, {{.begin = 0, .end = 2}, {.begin = 2, .end = 4}});
  CHECK(peak_and_extra(graph, two) == "77 at B loss, extra 2");
  // B(d2) contributes a second time to the gradient of a: 44 live + 16 (rule 10).
  CHECK(timeline(graph, two) ==
        "C d1 20/20, C d2 28/28, C mid 36/36, C up 52/44, C cat 76/44, C loss 45/44, "
        "B loss 77/44, B cat 76/44, R mid 52/52, B up 60/36, B mid 44/28, R d1 44/44, "
        "B d2 60/20, B d1 24/8");
  CHECK(peak_and_extra(graph, plan_of(graph, {{.begin = 0, .end = 3}, {.begin = 3, .end = 5}})) ==
        "77 at B loss, extra 2");
  CHECK(peak_and_extra(graph, plan_of(graph, {{.begin = 0, .end = 4}})) == "76 at B up, extra 3");
  CHECK(peak_and_extra(graph, plan_of(graph, {keeping(graph, 0, 4, {"a"})})) ==
        "85 at B loss, extra 2");
}

Graph attention_x4() {
  return example({{"x", 8}}, {{"qkv", {"x"}, "q", 24, {"x"}, 3},
                              {.name = "att",
                               .inputs = {"q"},
                               .output = "o",
                               .bytes = 8,
                               .saved = {"q", "o", "lse"},
                               .time_ns = 9,
                               .auxiliary = "lse",
                               .auxiliary_bytes = 2},
                              {"proj", {"o"}, "p", 8, {"o"}, 1},
                              {"loss", {"p"}, "l", 1, {"p"}, 1}});
}

TEST_CASE("X4: keep all of a flash attention's outputs or none") {
  const Graph graph = attention_x4();
  const auto plan = [&](const std::vector<std::string>& keep, Extent extent) {
    return plan_of(graph, {keeping(graph, 0, 3, keep)}, extent);
  };
  for (const Extent extent : {Extent::kNeeded, Extent::kPrefix}) {
    CAPTURE(extent_name(extent));
    CHECK(peak_and_extra(graph, plan({}, extent)) == "74 at B att, extra 12");
    CHECK(peak_and_extra(graph, plan({"o"}, extent)) == "74 at B att, extra 12");
    CHECK(peak_and_extra(graph, plan({"lse"}, extent)) == "74 at B att, extra 12");
    CHECK(peak_and_extra(graph, plan({"q"}, extent)) == "74 at B att, extra 9");
    CHECK(peak_and_extra(graph, plan({"o", "lse"}, extent)) == "74 at B att, extra 3");
    CHECK(peak_and_extra(graph, plan({"q", "o", "lse"}, extent)) == "74 at B att, extra 0");
  }
  // R(att) makes a second o, 8 bytes, for that step only.
  CHECK(timeline(graph, plan({"o"}, Extent::kNeeded)) ==
        "C qkv 32/32, C att 42/16, C proj 24/24, C loss 25/24, B loss 33/24, B proj 32/24, "
        "R qkv 48/48, R att 58/50, B att 74/32, B qkv 40/16");
  CHECK(timeline(graph, plan({"o", "lse"}, Extent::kNeeded)) ==
        "C qkv 32/32, C att 42/18, C proj 26/26, C loss 27/26, B loss 35/26, B proj 34/26, "
        "R qkv 50/50, B att 74/32, B qkv 40/16");
  const Schedule partial = lower(graph, plan({"o"}, Extent::kNeeded));
  REQUIRE(partial.warnings.size() == 1);
  CHECK(partial.warnings[0] == "'o' is kept, but op 'att' runs again all the same");
}

TEST_CASE("X5: a tensor saved inside and outside of its region is made twice, unless kept") {
  const Graph graph = example({{"x0", 2}}, {{"f0", {"x0"}, "x1", 3, {"x0"}},
                                            {"relu", {"x1"}, "x2", 5, {"x2"}},
                                            {"loss", {"x2"}, "l", 1, {"x2"}}});
  CHECK(backward_timeline(graph, plan_of(graph, {{.begin = 0, .end = 2}})) ==
        "B loss 13/7, R f0 10/10, R relu 15/12, B relu 15/5, B f0 7/4");
  CHECK(peak_and_extra(graph, plan_of(graph, {{.begin = 0, .end = 2}})) == "15 at R relu, extra 2");
  CHECK(backward_timeline(graph, plan_of(graph, {keeping(graph, 0, 2, {"x2"})})) ==
        "B loss 13/12, B relu 15/5, B f0 7/4");
  CHECK(peak_and_extra(graph, plan_of(graph, {keeping(graph, 0, 2, {"x2"})})) ==
        "15 at B relu, extra 0");
}

TEST_CASE("X6: an op in the middle that nothing needs does not run again") {
  const Graph graph = example({{"x", 4}}, {{"fa", {"x"}, "a", 4, {"x"}},
                                           {"neg", {"a"}, "b", 4, {}},
                                           {"sin", {"a"}, "c", 4, {"a"}},
                                           {"sub", {"b", "c"}, "y", 4, {}},
                                           {"loss", {"y"}, "l", 1, {"y"}}});
  const auto plan = [&](Extent extent) { return plan_of(graph, {{.begin = 0, .end = 3}}, extent); };
  // B(neg) contributes a second time to the gradient of a: 12 live + 4 (rule 10).
  CHECK(timeline(graph, plan(Extent::kNeeded)) ==
        "C fa 8/8, C neg 12/12, C sin 16/12, C sub 16/8, C loss 9/8, B loss 13/8, B sub 16/12, "
        "R fa 16/16, B sin 20/12, B neg 16/8, B fa 12/8");
  CHECK(peak_and_extra(graph, plan(Extent::kNeeded)) == "20 at B sin, extra 1");
  CHECK(backward_timeline(graph, plan(Extent::kPrefix)) ==
        "B loss 13/8, B sub 16/12, R fa 16/16, R neg 20/16, B sin 20/12, B neg 16/8, B fa 12/8");
  CHECK(peak_and_extra(graph, plan(Extent::kPrefix)) == "20 at R neg, extra 2");
  CHECK(peak_and_extra(graph, plan(Extent::kWhole)).ends_with("extra 3"));
}

TEST_CASE("X7: lower sets, where pushed gradients pass the published peak") {
  const Graph graph = example({{"w", 0}}, {{"0", {"w"}, "v0", 7, {"w"}},
                                           {"1", {"v0"}, "v1", 5, {"v0"}},
                                           {"2", {"v1"}, "v2", 9, {"v1"}},
                                           {"3", {"v0", "v1", "v2"}, "v3", 3, {"v0", "v1", "v2"}}});
  // {0} < {0, 1} < {0, 1, 2, 3}: published 38, bound 48.
  // v0 v1 v2 21 + g3 3 + g0 g1 g2 21 = 45.
  const Plan plan = plan_of(graph, {keeping(graph, 0, 1, {"v0"}), keeping(graph, 1, 2, {"v1"})});
  CHECK(peak_and_extra(graph, plan) == "45 at B 3, extra 0");
}

TEST_CASE("X8: a second contribution to a gradient is a tensor of its own") {
  const Graph graph = example({{"x", 4}}, {{"f", {"x"}, "a", 6, {"x"}},
                                           {"g", {"a"}, "b", 6, {"a"}},
                                           {"mul", {"a", "b"}, "l", 1, {"a", "b"}}});
  CHECK(timeline(graph, plan_of(graph, {})) ==
        "C f 10/10, C g 16/16, C mul 17/16, B mul 29/22, B g 28/10, B f 14/8");
}

// A chain as rotor has it: layer i saves its input, its output and auxiliaries; cw[i] are the
// bytes of x_i, cbw[i + 1] those of x_{i+1} with layer i's auxiliaries.
Graph rotor_chain(const std::vector<std::int64_t>& cw, const std::vector<std::int64_t>& cbw,
                  const std::vector<std::int64_t>& fw, const std::vector<std::int64_t>& fwd_tmp) {
  std::vector<ExampleOp> ops;
  for (std::size_t i = 0; i + 1 < cw.size(); ++i) {
    const std::string number = std::to_string(i);
    const std::string x = "x" + number;
    const std::string y = "x" + std::to_string(i + 1);
    ops.push_back({.name = number,
                   .inputs = {x},
                   .output = y,
                   .bytes = cw[i + 1],
                   .saved = {x, y, "aux" + number},
                   .time_ns = fw[i],
                   .auxiliary = "aux" + number,
                   .auxiliary_bytes = cbw[i] - cw[i + 1],
                   .workspace_bytes = fwd_tmp[i],
                   .sweep_workspace_bytes = 0});
  }
  return example({{"x0", cw[0]}}, ops);
}

TEST_CASE("X9: the corrected forward test of the chain recurrence") {
  const Region r0{.begin = 0, .end = 1};
  const Region r01{.begin = 0, .end = 2};
  const Graph unsafe = rotor_chain({3, 1, 6, 0}, {5, 10, 0}, {6, 9, 8}, {24, 10, 28});
  // (0 1) 2 under a budget of 37: R(0) takes x0 3 + y2 6 + abar1 5 + 24 = 38.
  const std::string over = backward_timeline(unsafe, plan_of(unsafe, {r01}));
  CHECK_MESSAGE(over.find("R 0 38/") != std::string::npos, over);
  CHECK(peak_and_extra(unsafe, plan_of(unsafe, {r01})) == "38 at R 0, extra 15");
  const Region nested{.begin = 0, .end = 2, .inner = {r0}};
  const std::string fits = peak_and_extra(unsafe, plan_of(unsafe, {nested}));
  CHECK_MESSAGE(fits.ends_with("extra 21"), fits);
  CHECK_MESSAGE(std::stoi(fits) <= 37, fits);
  const Graph strict = rotor_chain({1, 2, 1, 0}, {5, 4, 4}, {8, 7, 4}, {0, 28, 17});
  CHECK(timeline(strict, plan_of(strict, {r0})) ==
        "C 0 3/3, C 1 35/7, C 2 28/11, B 2 12/8, B 1 10/3, R 0 8/8, B 0 9/2");
  CHECK(peak_and_extra(strict, plan_of(strict, {r0})) == "35 at C 1, extra 8");
}

}  // namespace
}  // namespace cairn
