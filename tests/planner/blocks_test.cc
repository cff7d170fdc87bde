#include "planner/blocks.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <string>
#include <vector>

#include "graph/dag.h"
#include "graph/graph_builder.h"
#include "graph/plan.h"
#include "models/load_model.h"
#include "planner/planner.h"
#include "tests/seed.h"
#include "tests/sim/random_graph.h"

namespace cairn {
namespace {

struct ChainOp {
  std::string name = {};  // of the op and of its output
  std::vector<std::string> inputs = {};
  std::int32_t block = -1;
  std::int64_t bytes = 4;
  std::string view_of = {};
  bool in_place = false;
};

// "x" is an input with a gradient, "ids" one without, "w" a parameter. Ops save their inputs, but
// views and ops in place save nothing.
Graph chain_of(const std::vector<ChainOp>& ops, const std::string& loss) {
  GraphBuilder builder("chain", DataType::kFloat32);
  builder.add_input_bytes("x", 4, true);
  builder.add_input_bytes("ids", 4, false);
  builder.add_parameter_bytes("w", 4, true);
  for (const ChainOp& op : ops) {
    CustomOp custom{.name = op.name, .in_place = op.in_place, .block = op.block};
    CustomTensor made{.name = op.name, .bytes = op.bytes};
    if (!op.view_of.empty()) made.view_of = builder.find(op.view_of);
    if (op.in_place) made.view_of = builder.find(op.inputs[0]);
    custom.outputs = {made};
    if (made.view_of == kNoTensor) custom.saved = op.inputs;
    for (const std::string& input : op.inputs) custom.inputs.push_back(builder.find(input));
    builder.add_custom(custom);
  }
  return builder.build(builder.find(loss));
}

// "x>[0,2)0>h L1": input, positions, kind, output, and the layer where there is one.
std::string blocks_text(const Graph& graph) {
  std::string text;
  for (const Block& block : chain_blocks(graph)) {
    const auto name = [&](TensorId id) {
      return id == kNoTensor ? std::string("-") : graph.tensor(id).name;
    };
    text += fmt::format("{}{}>[{},{}){}>{}", text.empty() ? "" : "  ", name(block.input),
                        block.begin, block.end, block.kind, name(block.output));
    if (block.layer >= 0) text += fmt::format(" L{}", block.layer);
  }
  return text;
}

Graph model_graph(const std::string& model, std::int64_t layers, const std::string& attention) {
  ModelRequest request{.model = model, .tokens = 64};
  request.set = {{"layers", std::to_string(layers)}};
  if (!attention.empty()) request.implementations = {{"attention", attention}};
  return load_model(request).graph;
}

// A cut holds if every plan with a region before it and one behind it is accepted.
void check_cuts(const Graph& graph, const std::vector<Block>& blocks) {
  std::int32_t position = 0;
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    CHECK(blocks[i].begin == position);
    CHECK(blocks[i].begin < blocks[i].end);
    position = blocks[i].end;
    CHECK(blocks[i].input == (i == 0 ? kNoTensor : blocks[i - 1].output));
    Plan plan = keep_all_plan(graph);
    if (i > 0) plan.regions.push_back({.begin = 0, .end = blocks[i].begin});
    plan.regions.push_back({.begin = blocks[i].begin, .end = blocks[i].end});
    CHECK_NOTHROW(check_plan(graph, plan));
    for (std::size_t t = 0; t < graph.tensors.size(); ++t) {
      const Tensor& tensor = graph.tensors[t];
      if (!tensor.has_gradient || tensor.producer == kNoOp) continue;
      const auto made_at = static_cast<std::int32_t>(tensor.producer);
      if (made_at >= blocks[i].begin || static_cast<TensorId>(t) == blocks[i].input) continue;
      for (std::int32_t op = blocks[i].begin; op < blocks[i].end; ++op) {
        for (const TensorId input : graph.ops[static_cast<std::size_t>(op)].inputs) {
          CHECK(input != static_cast<TensorId>(t));
        }
      }
    }
  }
  CHECK(position == static_cast<std::int32_t>(graph.ops.size()));
  CHECK(blocks.back().output == graph.loss);
}

}  // namespace

TEST_CASE("a chain of single ops is one block each") {
  const Graph graph = chain_of({{"a", {"x"}}, {"b", {"a"}}, {"c", {"b"}}, {"l", {"c"}}}, "l");
  CHECK(blocks_text(graph) == "->[0,1)0>a L0  a>[1,2)1>b L0  b>[2,3)2>c L1  c>[3,4)3>l L2");
}

TEST_CASE("a skip connection leaves no cut below it") {
  const Graph graph = chain_of({{"embed", {"x"}},
                                {"norm", {"embed"}, 0},
                                {"add", {"embed", "norm"}, 0},
                                {"norm2", {"add"}, 1},
                                {"add2", {"add", "norm2"}, 1},
                                {"loss", {"add2"}}},
                               "loss");
  CHECK(blocks_text(graph) ==
        "->[0,1)0>embed  embed>[1,3)1>add L0  add>[3,5)1>add2 L1  add2>[5,6)2>loss");
}

TEST_CASE("ops without a Backward stand in the block around them, and cross nothing") {
  // mask before the first Backward, table between embed and the first layer, accuracy at the end.
  const Graph graph = chain_of({{"mask", {"ids"}},
                                {"embed", {"x"}},
                                {"table", {"ids"}},
                                {"a", {"embed", "mask", "table"}, 0},
                                {"b", {"a", "mask", "table"}, 1},
                                {"loss", {"b"}},
                                {"accuracy", {"b"}}},
                               "loss");
  CHECK(blocks_text(graph) == "->[0,3)0>embed  embed>[3,4)1>a L0  a>[4,5)2>b L1  b>[5,7)3>loss");
}

TEST_CASE("where a second path lies on both sides of an articulation op, there is no cut") {
  // Behind c, which is an articulation op, a crosses as well.
  const Graph graph = chain_of(
      {{"a", {"x"}}, {"b", {"x"}}, {"c", {"b"}}, {"add", {"a", "c"}}, {"loss", {"add"}}}, "loss");
  CHECK(articulation_ops(graph).size() == 2);  // c and add
  CHECK(blocks_text(graph) == "->[0,1)0>a L0  a>[1,4)1>add  add>[4,5)2>loss L2");
}

TEST_CASE("nothing that crosses a cut is overwritten behind it") {
  const Graph graph = chain_of(
      {{"conv", {"x"}}, {"relu", {"conv"}, -1, 4, {}, true}, {"b", {"relu"}}, {"loss", {"b"}}},
      "loss");
  CHECK(blocks_text(graph) == "->[0,2)0>relu L0  relu>[2,3)1>b L1  b>[3,4)2>loss L2");
}

TEST_CASE("views that cost nothing are no blocks of their own") {
  const Graph graph = chain_of({{"conv", {"x"}},
                                {"flat", {"conv"}, -1, 4, "conv"},
                                {"linear", {"flat"}},
                                {"loss", {"linear"}}},
                               "loss");
  CHECK(blocks_text(graph) == "->[0,1)0>conv L0  conv>[1,3)1>linear  linear>[3,4)2>loss L2");
}

TEST_CASE("views stay in their layer") {
  const Graph graph = chain_of({{"a", {"x"}, 0},
                                {"a2", {"a"}, 0, 4, "a"},
                                {"b", {"a2"}, 1},
                                {"b2", {"b"}, 1, 4, "b"},
                                {"loss", {"b2"}}},
                               "loss");
  CHECK(blocks_text(graph) == "->[0,2)0>a2 L0  a2>[2,4)1>b2 L1  b2>[4,5)2>loss");
}

TEST_CASE("a graph without gradients is one block") {
  const Graph graph = chain_of({{"a", {"ids"}}, {"loss", {"a"}}}, "loss");
  CHECK(blocks_text(graph) == "->[0,2)0>loss");
}

TEST_CASE("kinds tell bytes, ends of layers and shared parameters apart") {
  const Graph equal = chain_of({{"e", {"x"}},
                                {"a", {"e"}, 0},
                                {"b", {"a"}, 1},
                                {"c", {"b"}, 2, 8},
                                {"d", {"c"}, 2},
                                {"l", {"d"}}},
                               "l");
  CHECK(blocks_text(equal) ==
        "->[0,1)0>e  e>[1,2)1>a L0  a>[2,3)1>b L1  b>[3,4)2>c L2  c>[4,5)3>d L2  d>[5,6)4>l");
  const Graph shared = chain_of(
      {{"e", {"x"}}, {"a", {"e", "w"}, 0}, {"b", {"a", "w"}, 1}, {"c", {"b"}, 2}, {"l", {"c"}}},
      "l");
  CHECK(blocks_text(shared) ==
        "->[0,1)0>e  e>[1,2)1>a L0  a>[2,3)2>b L1  b>[3,4)3>c L2  c>[4,5)4>l");
}

TEST_CASE("a llama layer is an attention half and an MLP half") {
  for (const char* const attention : {"sdpa", "eager", "flash"}) {
    CAPTURE(attention);
    const Graph graph = model_graph("llama-3.2-1b", 8, attention);
    const std::vector<Block> blocks = chain_blocks(graph);
    check_cuts(graph, blocks);
    REQUIRE(blocks.size() > 17);
    const auto layers = layer_ranges(graph);
    REQUIRE(layers.size() == 8);
    for (std::size_t layer = 0; layer < 8; ++layer) {
      const Block& attention_half = blocks[1 + 2 * layer];
      const Block& mlp_half = blocks[2 + 2 * layer];
      CHECK(attention_half.begin == layers[layer].first);
      CHECK(mlp_half.end == layers[layer].second);
      CHECK(attention_half.layer == static_cast<std::int32_t>(layer));
      CHECK(mlp_half.layer == static_cast<std::int32_t>(layer));
      CHECK(attention_half.kind == 1);
      CHECK(mlp_half.kind == (layer < 7 ? 2 : 3));  // the last is followed by another norm
    }
    CHECK(blocks[0].layer == -1);
    CHECK(blocks[17].layer == -1);
  }
}

TEST_CASE("layers that differ are of different kinds") {
  // gemma-3: five layers with a window of 512 tokens, then one without.
  ModelRequest request{.model = "gemma-3-1b", .tokens = 2048};
  request.set = {{"layers", "12"}};
  const Graph graph = load_model(request).graph;
  const std::vector<Block> blocks = chain_blocks(graph);
  std::vector<std::int32_t> first_kinds;  // of each layer
  for (std::size_t b = 1; b < blocks.size(); ++b) {
    if (blocks[b].layer > blocks[b - 1].layer) first_kinds.push_back(blocks[b].kind);
  }
  REQUIRE(first_kinds.size() == 12);
  for (std::size_t layer = 1; layer < 12; ++layer) {
    const bool is_as_first = first_kinds[layer] == first_kinds[0];
    CHECK(is_as_first == (layer % 6 != 5));
  }
  check_cuts(graph, blocks);
}

TEST_CASE("cuts of real models hold") {
  for (const char* const model : {"gpt2", "resnet-18", "vgg-11", "bert-base-uncased", "unet",
                                  "t5-small", "densenet-121", "vit-base-patch16-224"}) {
    CAPTURE(model);
    const Graph graph = load_model({.model = model}).graph;
    const std::vector<Block> blocks = chain_blocks(graph);
    check_cuts(graph, blocks);
  }
}

TEST_CASE("cuts of random graphs hold") {
  Random random(test_seed());
  INFO("--seed=", test_seed());
  for (int i = 0; i < 500; ++i) {
    CAPTURE(i);
    const Graph graph = random_graph(random);
    check_cuts(graph, chain_blocks(graph));
  }
}

}  // namespace cairn
