// Small families, written out, become graphs.

#include "models/instantiate.h"

#include <doctest/doctest.h>

#include <string>
#include <utility>

#include "graph/error.h"
#include "models/find_model.h"
#include "models/load_model.h"

namespace cairn {
namespace {

const char* const kHead =
    "family: f\n"
    "inputs:\n"
    "  x:      {dtype: activation, shape: [batch, tokens, 8]}\n"
    "  labels: {dtype: int64, shape: [batch, tokens]}\n";

Scope small_dims() {
  return {.values = {{"batch", integer_value(2)}, {"tokens", integer_value(4)}}};
}

Graph graph_of(const std::string& rest, const std::map<std::string, Layer>& layers = {},
               Recipe recipe = {}) {
  const Family family = parse_family(parse_document("family", kHead + rest));
  const Scope dims = small_dims();
  return instantiate({.family = family,
                      .layers = layers,
                      .dims = dims,
                      .recipe = std::move(recipe),
                      .model_name = "m"});
}

std::string refusal(const std::string& rest, const std::map<std::string, Layer>& layers = {},
                    const Recipe& recipe = {}) {
  try {
    graph_of(rest, layers, recipe);
  } catch (const InputError& error) {
    return error.what();
  }
  return "accepted";
}

// "a:linear b:gelu"
std::string ops_text(const Graph& graph) {
  std::string text;
  for (const Op& op : graph.ops) {
    text += (text.empty() ? "" : " ") + op.name + ":" + std::string(op.kind->name);
  }
  return text;
}

Layer layer_of(const std::string& text) { return parse_layer(parse_document("layer", text)); }

}  // namespace

TEST_CASE("a repeated block has numbered ops, modules and blocks") {
  const Graph graph = graph_of(
      "ops:\n"
      "  - repeat: 2\n"
      "    name: h\n"
      "    module: body.h\n"
      "    carry: {y: x}\n"
      "    ops:\n"
      "      - up: {op: linear, in: y, width: 8, module: fc}\n"
      "      - y:  {op: gelu, in: up}\n"
      "  - loss: {op: cross_entropy, in: [y, labels], module: head}\n");
  CHECK(ops_text(graph) == "h.0.up:linear h.0.y:gelu h.1.up:linear h.1.y:gelu loss:cross_entropy");
  CHECK(graph.ops[2].module == "body.h.1.fc");
  CHECK(graph.ops[3].module == "body.h.1");
  CHECK(graph.ops[4].module == "head");
  CHECK(graph.ops[2].block == 1);
  CHECK(graph.ops[4].block == -1);
  CHECK(graph.block_count == 2);
  // The second block reads what the first hands on.
  CHECK(graph.tensor(graph.ops[2].inputs[0]).name == "h.0.y");
}

TEST_CASE("a block knows its number") {
  const Graph graph = graph_of(
      "ops:\n"
      "  - repeat: 3\n"
      "    carry: {y: x}\n"
      "    ops:\n"
      "      - odd: {op: gelu, in: y, if: block % 2 == 1}\n"
      "      - y:   {op: silu, in: odd}\n"
      "  - loss: {op: cross_entropy, in: [y, labels]}\n");
  CHECK(ops_text(graph) ==
        "layers.0.y:silu layers.1.odd:gelu layers.1.y:silu layers.2.y:silu loss:cross_entropy");
}

TEST_CASE("dropout at rate zero, a cast to the same type and one group of heads are no ops") {
  CHECK(ops_text(graph_of("ops:\n"
                          "  - a: {op: dropout, in: x, p: 0}\n"
                          "  - b: {op: cast, in: a, dtype: activation}\n"
                          "  - c: {op: repeat_kv, in: b, heads: 4, kv_heads: 4}\n"
                          "  - loss: {op: cross_entropy, in: [c, labels]}\n")) ==
        "loss:cross_entropy");
}

TEST_CASE("an op that passes its input through may name its output") {
  CHECK(ops_text(graph_of("ops:\n"
                          "  - a: {op: dropout, in: x, p: 0, out: [y]}\n"
                          "  - b: {op: gelu, in: y, if: tokens > 4, out: [z]}\n"
                          "  - loss: {op: cross_entropy, in: [z, labels]}\n")) ==
        "loss:cross_entropy");
}

TEST_CASE("an activation has the recipe's type, and so have parameters") {
  const std::string ops =
      "ops:\n"
      "  - up: {op: linear, in: x, width: 8}\n"
      "  - loss: {op: cross_entropy, in: [up, labels]}\n";
  CHECK(graph_of(ops, {}, {.precision = DataType::kFloat32}).tensors[2].bytes == 8 * 8 * 4);
  const Graph graph = graph_of(ops, {}, {.precision = DataType::kBFloat16, .optimizer = "adamw"});
  CHECK(graph.tensors[0].bytes == 2 * 4 * 8 * 2);
  CHECK(parameter_bytes(graph) == 8 * 8 * 2);
  CHECK(optimizer_state_bytes(graph) == 2 * 8 * 8 * 2);
  CHECK(optimizer_state_bytes(graph_of(ops, {}, {.optimizer = "sgd"})) == 0);
  CHECK(optimizer_state_bytes(graph_of(ops, {}, {.optimizer = "lion"})) == 8 * 8 * 2);
}

TEST_CASE("a layer file spells an op out, and its last op has the op's name") {
  std::map<std::string, Layer> layers;
  layers.emplace("slow_gelu", layer_of("layer: slow_gelu\nof: gelu\ninputs: [in]\nops:\n"
                                       "  - cube: {op: pow, in: in}\n"
                                       "  - out: {op: tanh, in: cube}\n"));
  const Graph graph = graph_of(
      "implementations: {gelu: slow_gelu}\n"
      "ops:\n"
      "  - act: {op: gelu, in: x, module: mlp.act}\n"
      "  - loss: {op: cross_entropy, in: [act, labels]}\n",
      layers);
  CHECK(ops_text(graph) == "act.cube:pow act:tanh loss:cross_entropy");
  CHECK(graph.ops[0].module == "mlp.act");
  CHECK(graph.ops[1].module == "mlp.act");
}

TEST_CASE("a layer must make what the op it spells out makes") {
  std::map<std::string, Layer> layers;
  layers.emplace("g", layer_of("layer: g\nof: gelu\ninputs: [in]\nops:\n"
                               "  - out: {op: mean, in: in}\n"));
  CHECK_THROWS_WITH_AS(
      graph_of("implementations: {gelu: g}\n"
               "ops:\n"
               "  - act: {op: gelu, in: x}\n"
               "  - loss: {op: cross_entropy, in: [act, labels]}\n",
               layers),
      doctest::Contains("op 'act': a gelu makes [2, 4, 8], but layer 'g' makes [2, 4, 1]"),
      InputError);
}

TEST_CASE("a layer sees the attributes of the op that it spells out") {
  std::map<std::string, Layer> layers;
  layers.emplace("l",
                 layer_of("layer: l\nof: attention\ninputs: [q, k, v]\nops:\n"
                          "  - scores: {op: attention_scores, in: [q, k], heads: heads}\n"
                          "  - dropped: {op: dropout, in: scores, p: p}\n"
                          "  - out: {op: attention_values, in: [dropped, v], heads: heads}\n"));
  const std::string ops =
      "implementations: {attention: {default: plain, plain: l, flash: kernel}}\n"
      "ops:\n"
      "  - attn: {op: attention, in: [x, x, x], heads: 4, p: 0.5}\n"
      "  - loss: {op: cross_entropy, in: [attn, labels]}\n";
  CHECK(ops_text(graph_of(ops, layers)) ==
        "attn.scores:attention_scores attn.dropped:dropout attn:attention_values "
        "loss:cross_entropy");
  CHECK(ops_text(graph_of(ops, layers, {.attention = "flash"})) ==
        "attn:attention loss:cross_entropy");
  CHECK(refusal(ops, layers, {.attention = "flsh"}) ==
        "unknown attention 'flsh' for family 'f': expected one of flash, plain; did you mean "
        "'flash'?");
}

TEST_CASE("a layer's inputs are as many as the op's") {
  std::map<std::string, Layer> layers;
  layers.emplace("l", layer_of("layer: l\nof: gelu\ninputs: [a, b]\nops:\n"
                               "  - out: {op: add, in: [a, b]}\n"));
  CHECK(refusal("implementations: {gelu: l}\n"
                "ops:\n"
                "  - act: {op: gelu, in: x}\n"
                "  - loss: {op: cross_entropy, in: [act, labels]}\n",
                layers) ==
        "family:7:5: op 'act': layer 'l' takes 2 inputs, found 1\n"
        "  - act: {op: gelu, in: x}\n"
        "    ^");
}

TEST_CASE("an optimizer or attention that nobody knows is refused") {
  const std::string ops = "ops:\n  - loss: {op: cross_entropy, in: [x, labels]}\n";
  CHECK(refusal(ops, {}, {.optimizer = "adam2"}) ==
        "unknown optimizer 'adam2': expected one of adamw, adam, sgd, sgd-momentum, lion; did you "
        "mean 'adamw'?");
  CHECK(refusal(ops, {}, {.optimizer = ""}) ==
        "unknown optimizer '': expected one of adamw, adam, sgd, sgd-momentum, lion");
  const Family family = parse_family(parse_document("family", kHead + ops));
  CHECK_THROWS_WITH_AS(attention_choice(family, {.attention = "flash"}),
                       "family 'f' has no choice of attention", InputError);
}

TEST_CASE("a weight is shared within the block, else with an op outside") {
  const Graph graph = graph_of(
      "ops:\n"
      "  - a: {op: linear, in: x, width: 8}\n"
      "  - repeat: 1\n"
      "    carry: {y: a}\n"
      "    ops:\n"
      "      - b: {op: linear, in: y, width: 8}\n"
      "      - c: {op: linear, in: b, width: 8, weight: b}\n"
      "      - y: {op: linear, in: c, width: 8, weight: {of: a, if: batch == 2}}\n"
      "  - loss: {op: cross_entropy, in: [y, labels]}\n");
  CHECK(graph.tensor(graph.ops[2].inputs[1]).name == "layers.0.b.weight");
  CHECK(graph.tensor(graph.ops[3].inputs[1]).name == "a.weight");
  CHECK(parameter_count(graph) == 2 * 64);
}

TEST_CASE("numbers that make no sense are refused before anything is built") {
  const auto load = [](const ModelRequest& request) -> std::string {
    try {
      load_model(request);
    } catch (const InputError& error) {
      const std::string message = error.what();
      return message.substr(0, message.find('\n'));
    }
    return "accepted";
  };
  CHECK(load({.model = "llama-3.1-8b", .batch = 0}) ==
        "--batch: expected a positive integer, found 0");
  CHECK(load({.model = "llama-3.1-8b", .tokens = -1}) ==
        "--tokens: expected a positive integer, found -1");
  CHECK(load({.model = "llama-3.1-8b", .vocab = 0}) ==
        "--vocab: expected a positive integer (248k is 248000), found '0'");
  CHECK(load({.model = "llama-3.1-8b", .set = {{"tokens", "4"}}}) == "--set tokens: use --tokens");
  CHECK(load({.model = "llama-3.1-8b", .vocab = 4, .set = {{"vocab", "4"}}}) ==
        "--vocab: dim 'vocab' is set twice");
  CHECK(load({.model = "llama-3.1-8b", .batch = INT64_MAX}) ==
        "llama-3.1-8b: tensor 'ids': its number of elements: 9223372036854775807 x 2048 does not "
        "fit in 63 bits");
  CHECK(load({.model = "llama-3.1-8b", .tokens = 1, .set = {{"layers", "1000000000"}}}) ==
        "llama-3.1-8b: 'layers' is 1000000000: expected 1 to 100000 repeated blocks");
  CHECK(load({.model = "llama-3.1-8b", .optimizer = "adamx"}) ==
        "unknown optimizer 'adamx': expected one of adamw, adam, sgd, sgd-momentum, lion; did you "
        "mean 'adamw'?");
  CHECK(load({.model = "llama-3.1-8b", .attention = "eagre"}) ==
        "unknown attention 'eagre' for family 'llama': expected one of eager, flash, sdpa; did "
        "you mean 'eager'?");
}

}  // namespace cairn
