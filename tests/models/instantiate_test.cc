// Small families, written out, become graphs.

#include "models/instantiate.h"

#include <doctest/doctest.h>

#include <string>
#include <utility>

#include "graph/error.h"
#include "models/find_model.h"
#include "models/link_layers.h"
#include "models/load_model.h"
#include "models/optimizer.h"
#include "tests/models/small_family.h"

namespace cairn {
namespace {

using test::graph_of;
using test::layer_of;
using test::ops_text;
using test::refusal;

}  // namespace

TEST_CASE("what a name holds is held until its scope's last op") {
  // The names of a block hold until the block ends, those of a layer file until all of it has run.
  const Layer twice = layer_of(
      "layer: twice\n"
      "inputs: [x]\n"
      "ops:\n"
      "  - first: {op: gelu, in: x, held_until: module}\n"
      "  - out:   {op: tanh, in: first}\n");
  const Graph graph = graph_of(
      "ops:\n"
      "  - top: {op: linear, in: x, width: 8, held_until: layers}\n"
      "  - repeat: 2\n"
      "    carry: {y: top}\n"
      "    ops:\n"
      "      - a: {op: linear, in: y, width: 8, held_until: b}\n"
      "      - b: {op: twice, in: a}\n"
      "      - c: {op: dropout, in: b, held_until: module}\n"
      "      - y: {op: gelu, in: c}\n"
      "  - logits: {op: linear, in: y, width: 4, held_until: forward}\n"
      "  - loss: {op: cross_entropy, in: [logits, labels]}\n",
      {{"twice", twice}});
  std::string text;
  for (const Tensor& tensor : graph.tensors) {
    if (tensor.held_until == kNoOp) continue;
    text += tensor.name + " until " + graph.op(tensor.held_until).name + "\n";
  }
  CHECK(text ==
        "top until layers.1.y\n"
        "layers.0.a until layers.0.b.out\n"
        "layers.0.b.first until layers.0.b.out\n"
        "layers.0.b.out until layers.0.y\n"  // what the dropout of probability 0 hands on
        "layers.0.y until layers.1.y\n"      // an argument of the second block
        "layers.1.a until layers.1.b.out\n"
        "layers.1.b.first until layers.1.b.out\n"
        "layers.1.b.out until layers.1.y\n"
        "logits until loss\n");
}

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
  CHECK(graph_of(ops, {}, {.precision = {DataType::kFloat32}}).tensors[2].bytes == 8 * 8 * 4);
  const Graph graph = graph_of(ops, {}, {.precision = {DataType::kBFloat16}, .optimizer = "adamw"});
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
  CHECK(ops_text(graph_of(ops, layers, {.implementations = {{"attention", "flash"}}})) ==
        "attn:attention loss:cross_entropy");
  CHECK(refusal(ops, layers, {.implementations = {{"attention", "flsh"}}}) ==
        "family 'f' has no attention 'flsh': expected one of flash, plain; did you mean 'flash'?");
  CHECK(refusal(ops, layers, {.implementations = {{"attention", "flash_attention_2"}}}) ==
        "family 'f' has no attention 'flash_attention_2': expected one of flash, plain; did you "
        "mean 'flash'?");
  CHECK(refusal(ops, layers, {.implementations = {{"attention", "sdpa"}}}) ==
        "family 'f' has no attention 'sdpa': expected one of flash, plain");
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
  CHECK(refusal(ops, {}, {.optimizer = "adam2"}) == "unknown optimizer 'adam2': expected one of " +
                                                        join_names(optimizer_names()) +
                                                        "; did you mean 'adamw'?");
  CHECK(refusal(ops, {}, {.optimizer = ""}) ==
        "unknown optimizer '': expected one of " + join_names(optimizer_names()));
  CHECK(refusal(ops, {}, {.implementations = {{"attention", "flash"}}}) ==
        "family 'f' has no choice of attention");
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
        "llama-3.1-8b: 'layers' is 1000000000: expected 0 to 100000 repeated blocks");
  CHECK(load({.model = "llama-3.1-8b", .optimizer = "adamx"}) ==
        "unknown optimizer 'adamx': expected one of " + join_names(optimizer_names()) +
            "; did you mean 'adamw'?");
  CHECK(load({.model = "llama-3.1-8b", .implementations = {{"attention", "eagre"}}}) ==
        "family 'llama' has no attention 'eagre': expected one of eager, flash, sdpa; did you "
        "mean 'eager'?");
}

namespace {

// A composite with a default that uses another attribute, and one within it.
std::map<std::string, Layer> composites() {
  std::map<std::string, Layer> layers;
  layers.emplace("mlp",
                 layer_of("layer: mlp\n"
                          "inputs: [x]\n"
                          "attributes: {width: , inner: 4 * width, act: 'gelu'}\n"
                          "ops:\n"
                          "  - up:  {op: linear, in: x, width: inner, module: up}\n"
                          "  - act: {op: gelu, in: up, if: act == 'gelu'}\n"
                          "  - out: {op: projection, in: act, width: width, module: out}\n"));
  layers.emplace("projection",
                 layer_of("layer: projection\n"
                          "inputs: [x]\n"
                          "attributes: {width: }\n"
                          "ops:\n"
                          "  - down: {op: linear, in: x, width: width, bias: block == 1}\n"));
  layers.emplace("halves", layer_of("layer: halves\n"
                                    "inputs: [x]\n"
                                    "outputs: [a, b]\n"
                                    "ops:\n"
                                    "  - parts: {op: split, in: x, parts: 2, out: [a, b]}\n"));
  return layers;
}

}  // namespace

TEST_CASE("a composite's ops are named below its use, and see its attributes and the block") {
  const Graph graph = graph_of(
      "ops:\n"
      "  - repeat: 2\n"
      "    module: h\n"
      "    carry: {y: x}\n"
      "    ops:\n"
      "      - y: {op: mlp, in: y, width: 8, act: \"gelu\", module: mlp}\n"
      "  - loss: {op: cross_entropy, in: [y, labels]}\n",
      composites());
  CHECK(ops_text(graph) ==
        "layers.0.y.up:linear layers.0.y.act:gelu layers.0.y.out.down:linear "
        "layers.1.y.up:linear layers.1.y.act:gelu layers.1.y.out.down:linear loss:cross_entropy");
  CHECK(graph.ops[0].attributes.width == 32);
  CHECK(graph.ops[2].module == "h.0.mlp.out");
  CHECK(graph.ops[2].attributes.bias == false);
  CHECK(graph.ops[5].attributes.bias == true);
}

TEST_CASE("a composite may make several tensors, or be left out") {
  const Graph graph = graph_of(
      "ops:\n"
      "  - h: {op: halves, in: x, out: [first, second]}\n"
      "  - g: {op: mlp, in: second, width: 4, if: batch == 3}\n"
      "  - m: {op: mul, in: [first, g]}\n"
      "  - loss: {op: cross_entropy, in: [m, labels]}\n",
      composites());
  CHECK(ops_text(graph) == "h.parts:split m:mul loss:cross_entropy");
  CHECK(graph.tensor(graph.ops[1].inputs[1]).name == "h.parts.1");
}

TEST_CASE("a use that does not fit its composite is refused") {
  const auto use = [](const std::string& op) {
    const std::string message = refusal(
        "ops:\n  - a: " + op + "\n  - loss: {op: cross_entropy, in: [a, labels]}\n", composites());
    return message.substr(0, message.find('\n'));
  };
  CHECK(use("{op: projetion, in: x, width: 8}") ==
        "family:6:13: op 'a': key 'op': unknown op kind 'projetion'; did you mean 'projection'?");
  CHECK(use("{op: mlp, in: x}") == "family:6:5: op 'a': a mlp needs the attribute 'width'");
  CHECK(use("{op: mlp, in: x, width: 8, innner: 4}") ==
        "family:6:43: op 'a': a mlp has no attribute 'innner'; did you mean 'inner'?");
  CHECK(use("{op: mlp, in: [x, x], width: 8}") ==
        "family:6:5: op 'a': a mlp takes 1 input, found 2");
  CHECK(use("{op: halves, in: x}") == "family:6:5: op 'a': it makes 2 tensors, 'out' names 0");
  CHECK(use("{op: mlp, in: x, width: 8, weight: y}") ==
        "family:6:35: op 'a': key 'weight': a mlp has no weight");
  std::map<std::string, Layer> loop = composites();
  loop.at("projection") = layer_of(
      "layer: projection\ninputs: [x]\nattributes: {width: }\n"
      "ops:\n  - m: {op: mlp, in: x, width: width}\n");
  const std::string message = refusal(
      "ops:\n  - a: {op: mlp, in: x, width: 8}\n  - loss: {op: cross_entropy, in: [a, labels]}\n",
      loop);
  CHECK(message.substr(0, message.find('\n')) == "layer:5:5: op 'm': layer 'mlp' contains itself");
}

TEST_CASE("included sections come first, and the family's own entries replace theirs") {
  std::vector<Document> sections;
  sections.push_back(parse_document("s",
                                    "sections: s\ndims: {a: [a, 2], b: [b, a]}\n"
                                    "inputs: {x: {dtype: fp32, shape: [a]}}\n"));
  const Family family = parse_family(parse_document("f",
                                                    "family: f\ninclude: s\ndims: {a: [aa, 3]}\n"
                                                    "inputs: {x: {dtype: fp32, shape: [b, a]}}\n"
                                                    "ops:\n  - l: {op: gelu, in: x}\n"),
                                     std::move(sections));
  CHECK(family.dims.size() == 2);
  CHECK(family.dims[0].config_keys[0] == "aa");
  CHECK(family.inputs.size() == 1);
  CHECK(family.inputs[0].shape.size() == 2);
}

}  // namespace cairn
