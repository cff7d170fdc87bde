// Lists of tensors in layer files: a split without names, and what runs once for each of its parts.

#include <doctest/doctest.h>

#include <string>

#include "graph/error.h"
#include "models/family.h"
#include "models/instantiate.h"
#include "tests/models/small_family.h"

namespace cairn {
namespace {

using test::graph_of;
using test::layer_of;
using test::ops_text;
using test::refusal;

const char* const kFamily =
    "implementations:\n  cross_entropy: {option: loss, default: chunked, chunked: chunked}\n"
    "ops:\n  - h: {op: linear, in: x, width: 8}\n"
    "  - logits: {op: linear, in: h, width: 5, bias: true, logits: true}\n"
    "  - loss: {op: cross_entropy, in: [logits, labels]}\n";

std::string layer_text(const std::string& ops) {
  return "layer: chunked\nof: cross_entropy\ntakes_head: true\ninputs: [x, labels]\nops:\n" + ops;
}

// Of three tokens and one: small_dims() has four.
const char* const kParts =
    "  - chunks: {op: split, in: x, axis: 1, width: tokens - 1}\n"
    "  - parts: {op: split_ids, in: labels, axis: 1, width: tokens - 1}\n";
const char* const kHead =
    "  - logits: {op: linear, in: chunks, width: width, bias: bias, each: a, held_until: module}\n";
const char* const kLosses =
    "  - wide: {op: cast, in: logits, dtype: fp32, each: b, held_until: losses}\n"
    "  - losses: {op: nll_loss, in: [wide, parts], each: b}\n"
    "  - all: {op: cat, in: losses}\n  - out: {op: mean, in: all}\n";

std::string layer_refusal(const std::string& ops) {
  try {
    return refusal(kFamily, {{"chunked", layer_of(layer_text(ops))}});
  } catch (const InputError& error) {
    return error.what();
  }
}

bool says(const std::string& message, const std::string& part) {
  CAPTURE(message);
  return message.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("ops of one each run item by item, and share the head") {
  const Graph graph =
      graph_of(kFamily, {{"chunked", layer_of(layer_text(std::string(kParts) + kHead + kLosses))}});
  CHECK(ops_text(graph) ==
        "h:linear loss.chunks:split loss.parts:split_ids loss.logits.0:linear "
        "loss.logits.1:linear loss.wide.0:cast loss.losses.0:nll_loss loss.wide.1:cast "
        "loss.losses.1:nll_loss loss.all:cat loss:mean");
  CHECK(parameter_count(graph) == 8 * 8 + 8 * 5 + 5);
  const auto find = [&](const std::string& name) {
    for (const Tensor& tensor : graph.tensors) {
      if (tensor.name == name) return tensor;
    }
    FAIL("no tensor " << name);
    return Tensor{};
  };
  CHECK(find("loss.logits.0").shape == Shape{2, 3, 5});
  CHECK(find("loss.logits.1").shape == Shape{2, 1, 5});
  const auto until = [&](const std::string& name) {
    return graph.ops[index(find(name).held_until)].name;
  };
  CHECK(until("loss.logits.0") == "loss");
  CHECK(until("loss.wide.0") == "loss.losses.0");  // its own item's
  CHECK(until("loss.wide.1") == "loss.losses.1");
}

TEST_CASE("lists are refused where there are none, or where they differ in length") {
  const std::string head = kHead;
  CHECK(says(layer_refusal(kParts + std::string("  - out: {op: mean, in: chunks, each: a}\n")),
             "op 'out': key 'each': the last op makes the layer's output, one tensor"));
  CHECK(says(layer_refusal(std::string("  - wide: {op: cast, in: x, dtype: fp32, each: a}\n") +
                           "  - out: {op: nll_loss, in: [wide, labels]}\n"),
             "op 'wide': key 'each': it reads no list"));
  CHECK(says(layer_refusal("  - chunks: {op: split, in: x, axis: 1, width: 2}\n"
                           "  - parts: {op: split_ids, in: labels, axis: 1, width: 1}\n"
                           "  - losses: {op: nll_loss, in: [chunks, parts], each: a}\n"
                           "  - all: {op: cat, in: losses}\n  - out: {op: mean, in: all}\n"),
             "op 'losses': it reads lists of 2 and 4 tensors"));
  CHECK(says(layer_refusal("  - chunks: {op: split, in: x, axis: 3, width: 2}\n"
                           "  - all: {op: cat, in: chunks}\n"
                           "  - out: {op: nll_loss, in: [all, labels]}\n"),
             "axis 3 is none of [2, 4, 8]"));
  CHECK(says(refusal("ops:\n  - h: {op: gelu, in: x, each: a}\n"
                     "  - loss: {op: cross_entropy, in: [h, labels]}\n"),
             "op 'h': key 'each': only layers of an op kind have lists"));
}

}  // namespace cairn
