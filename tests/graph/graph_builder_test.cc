#include "graph/graph_builder.h"

#include <doctest/doctest.h>

#include <functional>
#include <string>

#include "graph/error.h"

namespace cairn {
namespace {

constexpr DataType kBf16 = DataType::kBFloat16;

std::string refusal(const std::function<void()>& action) {
  try {
    action();
  } catch (const InputError& error) {
    return error.what();
  }
  return "accepted";
}

OpRequest request(const std::string& name, const std::string& kind, std::vector<TensorId> inputs,
                  OpAttributes attributes = {}) {
  return {.name = name,
          .kind = find_op_kind(kind),
          .attributes = std::move(attributes),
          .inputs = std::move(inputs)};
}

const Tensor& named(const Graph& graph, const std::string& name) {
  for (const Tensor& tensor : graph.tensors) {
    if (tensor.name == name) return tensor;
  }
  FAIL("no tensor " << name);
  return graph.tensors[0];
}

// f makes "a" (8 bytes) from the input "x"; the test goes on from there.
struct Started {
  GraphBuilder builder{"g", DataType::kFloat32};
  TensorId x = kNoTensor;
  TensorId a = kNoTensor;

  explicit Started(std::vector<std::string> saved = {}) {
    x = builder.add_input_bytes("x", 8, true);
    a = builder.add_custom({.name = "f",
                            .inputs = {x},
                            .outputs = {{.name = "a", .bytes = 8}},
                            .saved = std::move(saved)})[0];
  }

  // Overwrites `base`.
  TensorId write(const std::string& name, TensorId base, const std::string& output) {
    return builder.add_custom({.name = name,
                               .inputs = {base},
                               .outputs = {{.name = output, .bytes = 8, .view_of = base}},
                               .in_place = true})[0];
  }

  TensorId read(const std::string& name, std::vector<TensorId> inputs,
                std::vector<std::string> saved = {}) {
    return builder.add_custom({.name = name,
                               .inputs = std::move(inputs),
                               .outputs = {{.name = name + ".out", .bytes = 4}},
                               .saved = std::move(saved)})[0];
  }
};

}  // namespace

TEST_CASE("outputs are named after their op, parameters and auxiliaries by suffix") {
  GraphBuilder builder("g", kBf16, like_parameters({.state_count = 2}));
  const TensorId x = builder.add_input("x", kBf16, {1, 4, 8}, false);
  const TensorId norm = builder.add_op(request("norm", "rms_norm", {x}))[0];
  const TensorId qkv = builder.add_op(request("qkv", "linear", {norm}, {.width = 24}))[0];
  const std::vector<TensorId> parts =
      builder.add_op(request("parts", "split", {qkv}, {.parts = 3}));
  REQUIRE(parts.size() == 3);
  CHECK(builder.tensor(parts[1]).name == "parts.1");
  CHECK(builder.find("norm.rstd") != kNoTensor);
  CHECK(builder.find("nothing") == kNoTensor);
  const TensorId out = builder.add_op(request("out", "mul", {parts[0], parts[2]}))[0];
  const Graph graph = builder.build(out);
  // 24 x 8 elements of 2 bytes, and AdamW's two states of each.
  CHECK(named(graph, "qkv.weight").bytes == 384);
  CHECK(named(graph, "qkv.weight").optimizer_state_bytes == 768);
  CHECK(parameter_count(graph) == 24 * 8 + 8);
  CHECK(parameter_bytes(graph) == 2 * (24 * 8 + 8));
  CHECK(optimizer_state_bytes(graph) == 4 * (24 * 8 + 8));
  // The parts lie on qkv's storage.
  CHECK(is_view(graph, parts[2]));
  CHECK(graph.tensor(parts[2]).storage == graph.tensor(qkv).storage);
  CHECK(graph.storage(graph.tensor(qkv).storage).owner == qkv);
}

TEST_CASE("a tensor has a gradient when it requires one and the loss depends on it") {
  GraphBuilder builder("g", kBf16);
  const TensorId x = builder.add_input("x", kBf16, {1, 4, 8}, false);
  const TensorId before = builder.add_op(request("before", "gelu", {x}))[0];
  const TensorId on_path = builder.add_op(request("on_path", "linear", {before}, {.width = 8}))[0];
  builder.add_op(request("aside", "linear", {on_path}, {.width = 8}));
  const TensorId loss = builder.add_op(request("loss", "mean", {on_path}))[0];
  const Graph graph = builder.build(loss);
  CHECK_FALSE(graph.tensor(before).requires_grad);
  CHECK(graph.tensor(on_path).has_gradient);
  CHECK(named(graph, "on_path.weight").has_gradient);
  CHECK(named(graph, "aside").requires_grad);
  CHECK_FALSE(named(graph, "aside").has_gradient);
  CHECK_FALSE(named(graph, "aside.weight").has_gradient);
  // before, on_path, aside, loss
  CHECK_FALSE(graph.ops[0].has_backward);
  CHECK(graph.ops[1].has_backward);
  CHECK_FALSE(graph.ops[2].has_backward);
  CHECK(graph.ops[3].has_backward);
}

TEST_CASE("frozen parts have no optimizer states, but hand gradients on") {
  GraphBuilder builder("g", kBf16, like_parameters({.state_count = 2}));
  const TensorId x = builder.add_input("x", kBf16, {1, 4, 8}, true);
  builder.set_trainable(false);
  const TensorId up = builder.add_op(request("up", "linear", {x}, {.width = 8}))[0];
  const Graph graph = builder.build(up);
  CHECK(named(graph, "up.weight").optimizer_state_bytes == 0);
  CHECK_FALSE(named(graph, "up.weight").requires_grad);
  CHECK(graph.tensor(up).has_gradient);
}

TEST_CASE("ids and labels are integers, everything else is floating point") {
  GraphBuilder builder("g", kBf16);
  const TensorId x = builder.add_input("x", kBf16, {1, 4, 8}, true);
  const TensorId ids = builder.add_input("ids", DataType::kInt64, {1, 4}, false);
  CHECK(refusal([&] { builder.add_op(request("e", "embedding", {x}, {.width = 8, .rows = 4})); }) ==
        "op 'e': a embedding takes integers as input 1, found 'x' of bf16");
  CHECK(refusal([&] {
          builder.add_op(request("l", "cross_entropy", {x, x}));
        }) == "op 'l': a cross_entropy takes integers as input 2, found 'x' of bf16");
  CHECK(refusal([&] { builder.add_op(request("g", "gelu", {ids})); }) ==
        "op 'g': a gelu takes floating-point numbers as input 1, found 'ids' of int64");
  CHECK(refusal([&] {
          builder.add_op(request("c", "cast", {x}, {.data_type = DataType::kInt64}));
        }) == "op 'c': its dtype is int64, which carries no gradient");
}

TEST_CASE("logits, and what is made of them, are marked") {
  GraphBuilder builder("g", kBf16);
  const TensorId x = builder.add_input("x", kBf16, {1, 4, 8}, true);
  const TensorId labels = builder.add_input("labels", DataType::kInt64, {1, 4}, false);
  const TensorId logits = builder.add_op(request("logits", "linear", {x}, {.width = 16}))[0];
  builder.mark_logits(logits);
  const TensorId loss = builder.add_op(request("loss", "cross_entropy", {logits, labels}))[0];
  const Graph graph = builder.build(loss);
  CHECK_FALSE(graph.tensor(x).is_logits);
  CHECK(graph.tensor(logits).is_logits);
  CHECK(named(graph, "loss.softmax").is_logits);
  CHECK(graph.tensor(loss).is_logits);
}

TEST_CASE("a parameter is shared where the shapes agree") {
  GraphBuilder builder("g", kBf16);
  const TensorId ids = builder.add_input("ids", DataType::kInt64, {1, 4}, false);
  const TensorId embed =
      builder.add_op(request("embed", "embedding", {ids}, {.width = 8, .rows = 16}))[0];
  const TensorId table = builder.find("embed.weight");
  OpRequest logits = request("logits", "linear", {embed}, {.width = 16});
  logits.shared_parameters = {{"weight", table}};
  OpRequest other = request("other", "linear", {embed}, {.width = 15});
  other.shared_parameters = {{"weight", table}};
  OpRequest biased = request("biased", "linear", {embed}, {.width = 15});
  biased.shared_parameters = {{"bias", table}};
  CHECK(refusal([&] { builder.add_op(other); }) ==
        "op 'other': its weight cannot be 'embed.weight': the shapes differ");
  CHECK(refusal([&] { builder.add_op(biased); }) ==
        "op 'biased': this linear has no parameter 'bias' to share");
  const TensorId out = builder.add_op(logits)[0];
  CHECK(builder.find("logits.weight") == kNoTensor);
  CHECK(parameter_bytes(builder.build(out)) >= 16 * 8 * 2);
}

TEST_CASE("the builder refuses names used twice and wrong numbers of inputs") {
  GraphBuilder builder("g", kBf16);
  const TensorId x = builder.add_input("x", kBf16, {1, 4, 8}, true);
  builder.add_op(request("a", "gelu", {x}));
  CHECK(refusal([&] { builder.add_input("x", kBf16, {1}, false); }) ==
        "tensor 'x': the name is used twice");
  CHECK(refusal([&] { builder.add_op(request("a", "gelu", {x})); }) ==
        "tensor 'a': the name is used twice");
  CHECK(refusal([&] {
          builder.add_custom({.name = "a", .inputs = {x}, .outputs = {{.name = "b"}}});
        }) == "op 'a': the name is used twice");
  CHECK(refusal([&] { builder.add_op(request("b2", "add", {x})); }) ==
        "op 'b2': a add takes 2 inputs, found 1");
  CHECK(refusal([&] {
          builder.add_op(request("c", "gelu", {x, x}));
        }) == "op 'c': a gelu takes 1 input, found 2");
  CHECK(refusal([&] {
          builder.add_op(request("d", "geglu", {x, x, x}));
        }) == "op 'd': a geglu takes 1 to 2 inputs, found 3");
}

TEST_CASE("the builder refuses sizes that are no sizes, by the tensor's name") {
  GraphBuilder builder("g", kBf16, like_parameters({.state_count = 2}));
  CHECK(refusal([&] {
          builder.add_input("x", kBf16, {4, 0}, false);
        }) == "tensor 'x': a dim is 0; every dim must be positive");
  CHECK(refusal([&] { builder.add_input_bytes("x", -1, false); }) ==
        "tensor 'x': expected zero bytes or more, found -1");
  CHECK(refusal([&] { builder.add_parameter_bytes("w", INT64_MAX, true); }) ==
        "parameter 'w': optimizer states: 9223372036854775807 x 2 does not fit in 63 bits");
  CHECK(refusal([&] { builder.add_parameter("w", kBf16, {INT64_MAX}, true); }) ==
        "tensor 'w': its bytes: 9223372036854775807 x 2 does not fit in 63 bits");
}

TEST_CASE("sums of bytes past 63 bits are errors, not wrapped numbers") {
  GraphBuilder builder("g", kBf16);
  const TensorId a = builder.add_parameter_bytes("a", INT64_MAX, false);
  const TensorId b = builder.add_parameter_bytes("b", 1, false);
  CHECK(
      refusal([&] {
        builder.add_custom({.name = "f", .inputs = {a, b}, .outputs = {{.name = "y", .bytes = 1}}});
      }) == "op 'f': bytes it moves: 9223372036854775807 + 1 does not fit in 63 bits");
  GraphBuilder apart("g", kBf16);
  const TensorId c = apart.add_parameter_bytes("c", INT64_MAX, false);
  apart.add_parameter_bytes("d", 1, false);
  const TensorId y = apart.add_custom({.name = "f", .inputs = {c}, .outputs = {{.name = "y"}}})[0];
  const Graph graph = apart.build(y);
  CHECK(refusal([&] { parameter_bytes(graph); }) ==
        "bytes of the parameters: 9223372036854775807 + 1 does not fit in 63 bits");
}

TEST_CASE("a custom op saves and aliases its own tensors only") {
  Started g;
  const TensorId b = g.builder.add_input_bytes("b", 4, true);
  CHECK(refusal([&] { g.read("g", {g.a}, {"x"}); }) ==
        "op 'g': it saves 'x', which is not one of its own tensors; did you mean 'a'?");
  CHECK(refusal([&] {
          g.builder.add_custom({.name = "h",
                                .inputs = {g.a},
                                .outputs = {{.name = "h.out", .bytes = 8}},
                                .gradient_aliases = {"h.out"}});
        }) == "op 'h': it aliases the gradient of 'h.out', which is not one of its inputs");
  CHECK(refusal([&] {
          g.builder.add_custom({.name = "i",
                                .inputs = {b},
                                .outputs = {{.name = "i.out", .bytes = 8}},
                                .gradient_aliases = {"b"}});
        }) == "op 'i': the gradient of 'b' cannot alias that of the output: their bytes differ");
}

TEST_CASE("a view is of an input, and fits into its storage") {
  Started g;
  const TensorId c = g.read("g", {g.a});
  CHECK(refusal([&] {
          g.builder.add_custom(
              {.name = "h", .inputs = {c}, .outputs = {{.name = "v", .bytes = 4, .view_of = g.a}}});
        }) == "tensor 'v': it is a view of 'a', which is not an input of op 'h'");
  CHECK(refusal([&] {
          g.builder.add_custom({.name = "i",
                                .inputs = {g.a},
                                .outputs = {{.name = "v", .bytes = 9, .view_of = g.a}}});
        }) == "tensor 'v': a view of 9 bytes does not fit in the 8 bytes of 'a'");
}

TEST_CASE("an auxiliary is read by its own Backward only, and is no loss") {
  Started g;
  g.builder.add_custom({.name = "att",
                        .inputs = {g.a},
                        .outputs = {{.name = "o", .bytes = 8}},
                        .auxiliaries = {{.name = "lse", .bytes = 4}},
                        .saved = {"lse"}});
  const TensorId lse = g.builder.find("lse");
  CHECK(
      refusal([&] { g.read("g", {lse}); }) ==
      "op 'g': it reads 'lse', an auxiliary of op 'att', which only that op's own Backward reads");
  CHECK(refusal([&] { g.builder.build(lse); }) ==
        "the loss 'lse' is an auxiliary, which only a Backward reads");
}

TEST_CASE("the loss is made by an op") {
  GraphBuilder empty("g", kBf16);
  CHECK(refusal([&] { empty.build(kNoTensor); }) == "graph 'g' has no ops");
  Started g;
  CHECK(refusal([&] { g.builder.build(g.x); }) == "the loss 'x' is not made by any op");
}

TEST_CASE("an in-place op reuses its input's storage") {
  Started g;
  const TensorId b = g.write("w", g.a, "b");
  const Graph graph = g.builder.build(g.read("loss", {b}, {"b"}));
  CHECK(graph.tensor(b).storage == graph.tensor(g.a).storage);
  CHECK(graph.storages.size() == 3);  // x, a, loss.out
}

TEST_CASE("an in-place op is refused where the old value is still needed") {
  SUBCASE("its output is no view of its first input") {
    Started g;
    CHECK(refusal([&] {
            g.builder.add_custom({.name = "w",
                                  .inputs = {g.a},
                                  .outputs = {{.name = "b", .bytes = 8}},
                                  .in_place = true});
          }) == "op 'w': an in-place op's first output must be a view of its first input");
  }
  SUBCASE("of a graph input") {
    Started g;
    const TensorId b = g.write("w", g.x, "b");
    CHECK(refusal([&] { g.builder.build(b); }) ==
          "op 'w' overwrites 'x', which lives for the whole step");
  }
  SUBCASE("of a view of a graph input") {
    Started g;
    const TensorId v = g.builder.add_custom(
        {.name = "v", .inputs = {g.x}, .outputs = {{.name = "v", .bytes = 8, .view_of = g.x}}})[0];
    const TensorId b = g.write("w", v, "b");
    CHECK(refusal([&] { g.builder.build(b); }) ==
          "op 'w' overwrites 'x', which lives for the whole step");
  }
  SUBCASE("saved by the op that makes it") {
    Started g({"a"});
    const TensorId b = g.write("w", g.a, "b");
    CHECK(refusal([&] { g.builder.build(b); }) ==
          "op 'w' overwrites 'a', which op 'f' saves for its Backward");
  }
  SUBCASE("read later") {
    Started g;
    const TensorId b = g.write("w", g.a, "b");
    const TensorId loss = g.read("loss", {b, g.a});
    CHECK(refusal([&] { g.builder.build(loss); }) ==
          "op 'w' overwrites 'a', which op 'loss' reads later");
  }
  SUBCASE("read later through a view") {
    Started g;
    const TensorId v = g.builder.add_custom(
        {.name = "v", .inputs = {g.a}, .outputs = {{.name = "v", .bytes = 8, .view_of = g.a}}})[0];
    const TensorId b = g.write("w", g.a, "b");
    const TensorId loss = g.read("loss", {b, v});
    CHECK(refusal([&] { g.builder.build(loss); }) ==
          "op 'w' overwrites 'a', which shares its storage with 'v', which op 'loss' reads later");
  }
}

TEST_CASE("in-place ops may follow one another") {
  Started g;
  const TensorId b = g.write("w1", g.a, "b");
  const TensorId c = g.write("w2", b, "c");
  CHECK(refusal([&] { g.builder.build(g.read("loss", {c}, {"c"})); }) == "accepted");
}

}  // namespace cairn
