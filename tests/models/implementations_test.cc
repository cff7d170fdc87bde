// A family's choices: among layers of a kind, among composites, and losses that take the head.

#include "models/implementations.h"

#include <doctest/doctest.h>

#include <string>
#include <utility>

#include "graph/error.h"
#include "models/instantiate.h"
#include "models/link_layers.h"
#include "tests/models/small_family.h"

namespace cairn {
namespace {

using test::graph_of;
using test::layer_of;
using test::ops_text;
using test::refusal;

const char* const kLosses =
    "implementations:\n"
    "  cross_entropy: {option: loss, default: megatron, megatron: kernel, cut: cut}\n";

Layer cut_layer() {
  return layer_of(
      "layer: cut\nof: cross_entropy\ntakes_head: true\ninputs: [x, labels]\nops:\n"
      "  - out: {op: cut_cross_entropy, in: [x, labels], width: width, bias: bias,\n"
      "          softcap: softcap}\n");
}

std::string with_cut_loss(const std::string& ops) {
  const std::map<std::string, Layer> layers = {{"cut", cut_layer()}};
  const Recipe recipe{.implementations = {{"loss", "cut"}}};
  const std::string text = kLosses + ("ops:\n" + ops);
  const std::string refused = refusal(text, layers, recipe);
  if (refused != "accepted") return refused;
  const Graph graph = graph_of(text, layers, recipe);
  std::string parameters;
  for (const Tensor& tensor : graph.tensors) {
    if (tensor.role == TensorRole::kParameter) parameters += " " + tensor.name;
  }
  return ops_text(graph) + " of" + parameters + ", module " + graph.ops.back().module;
}

TEST_CASE("a loss that takes the head has its weight by name, and its cap") {
  const std::string logits = "  - logits: {op: linear, in: h, width: 5, logits: true, module: m}\n";
  CHECK(with_cut_loss("  - h: {op: gelu, in: x}\n" + logits +
                      "  - loss: {op: cross_entropy, in: [logits, labels]}\n") ==
        "h:gelu loss:cut_cross_entropy of logits.weight, module m");
  CHECK(with_cut_loss("  - h: {op: linear, in: x, width: 8}\n"
                      "  - logits: {op: linear, in: h, width: 8, weight: h, logits: true}\n"
                      "  - capped: {op: tanh, in: logits, cap: true}\n"
                      "  - same: {op: gelu, in: capped, if: false}\n"
                      "  - loss: {op: cross_entropy, in: [same, labels]}\n") ==
        "h:linear loss:cut_cross_entropy of h.weight, module ");
  CHECK(with_cut_loss("  - h: {op: gelu, in: x}\n" + logits +
                      "  - other: {op: gelu, in: logits}\n"
                      "  - loss: {op: cross_entropy, in: [logits, labels]}\n")
            .find("op 'other': it reads the logits, which the loss 'cut' never makes whole") !=
        std::string::npos);
  CHECK(with_cut_loss("  - h: {op: linear, in: x, width: 5}\n"
                      "  - loss: {op: cross_entropy, in: [h, labels]}\n")
            .find("op 'loss': the loss 'cut' has the head in itself, but no linear with "
                  "'logits: true' makes 'h'") != std::string::npos);
}

TEST_CASE("an option chooses among composites, and among all kinds that name it") {
  const std::map<std::string, Layer> layers = {
      {"mlp", layer_of("layer: mlp\ninputs: [x]\nattributes: {width: }\nops:\n"
                       "  - up: {op: linear, in: x, width: width}\n"
                       "  - out: {op: gelu, in: up}\n")},
      {"other", layer_of("layer: other\ninputs: [x]\nattributes: {width: }\n"
                         "require: [{that: width < 9, else: other is for narrow ones}]\nops:\n"
                         "  - up: {op: linear, in: x, width: width}\n"
                         "  - out: {op: silu, in: up}\n")}};
  const auto family = [](const std::string& width) {
    return "implementations:\n"
           "  mlp: {option: mlp, default: own, own: mlp, other: other}\n"
           "  rms_norm: {option: norm, default: a, a: kernel, b: kernel}\n"
           "  layer_norm: {option: norm, default: b, b: kernel}\n"
           "ops:\n  - n: {op: rms_norm, in: x}\n  - m: {op: layer_norm, in: n}\n"
           "  - h: {op: mlp, in: m, width: " +
           width + "}\n  - loss: {op: cross_entropy, in: [h, labels]}\n";
  };
  CHECK(ops_text(graph_of(family("8"), layers)) ==
        "n:rms_norm m:layer_norm h.up:linear h.out:gelu loss:cross_entropy");
  const Recipe other{.implementations = {{"mlp", "other"}, {"norm", "b"}}};
  CHECK(ops_text(graph_of(family("8"), layers, other)) ==
        "n:rms_norm m:layer_norm h.up:linear h.out:silu loss:cross_entropy");
  CHECK(refusal(family("9"), layers, other).find("op 'h': other is for narrow ones (width = 9)") !=
        std::string::npos);
  CHECK(refusal(family("8"), layers, {.implementations = {{"norm", "a"}}}) ==
        "family 'f' has no norm 'a': expected one of b; did you mean 'b'?");
  CHECK(refusal(family("8"), layers, {.implementations = {{"rope", "a"}}}) ==
        "family 'f' has no choice of rope");
}

}  // namespace
}  // namespace cairn
