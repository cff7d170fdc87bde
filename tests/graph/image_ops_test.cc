// What the op kinds of images make, save and cost, on small shapes.

#include <doctest/doctest.h>

#include "graph/graph_builder.h"
#include "graph/ops/op_kind.h"
#include "tests/graph/op_text.h"

namespace cairn {
namespace {

// 2 images of 3 channels, 8 x 6 pixels: 288 elements, 576 bytes in bf16.
const Given kImages = {"x", {2, 3, 8, 6}};
const Given kFrozenImages = {"x", {2, 3, 8, 6}, DataType::kBFloat16, false};

// x = neg(input), then `kind` over it in place, with `others` as its further inputs.
Graph in_place_graph(const std::string& kind, const std::vector<Given>& others) {
  GraphBuilder builder("in place", DataType::kBFloat16);
  const TensorId input = builder.add_input("input", DataType::kBFloat16, {2, 3, 8, 6}, true);
  const TensorId x =
      builder.add_op({.name = "x", .kind = find_op_kind("neg"), .inputs = {input}})[0];
  OpRequest request{
      .name = "out", .kind = find_op_kind(kind), .attributes = {.in_place = true}, .inputs = {x}};
  for (const Given& other : others) {
    request.inputs.push_back(
        builder.add_input(other.name, other.type, other.shape, other.requires_grad));
  }
  return builder.build(builder.add_op(request)[0]);
}

}  // namespace

TEST_CASE("a convolution saves its input and its weight, whichever has a gradient") {
  // Sides: (8 + 2 * 1 - 3) / 2 + 1 = 4 and (6 + 2 - 3) / 2 + 1 = 3.
  const OpAttributes strided{.width = 5, .bias = true, .kernel = 3, .stride = 2, .padding = 1};
  CHECK(derived("conv2d", strided, {kImages}) == "bf16 [2, 5, 4, 3] | saves: x out.weight");
  CHECK(derived("conv2d", strided, {kFrozenImages}) == "bf16 [2, 5, 4, 3] | saves: x out.weight");
  CHECK(derived("conv2d", strided, {kImages}, false) == "bf16 [2, 5, 4, 3] | saves: x out.weight");
  CHECK(derived("conv2d", strided, {kFrozenImages}, false) == "bf16 [2, 5, 4, 3]");
  CHECK(derived("conv2d", {.width = 5, .kernel = 3}, {kImages}) ==
        "bf16 [2, 5, 6, 4] | saves: x out.weight");
}

TEST_CASE("a convolution multiplies its whole weight at each position of its output") {
  // 2 * (2 images * 4 * 3 positions) * (5 * 3 * 3 * 3 = 135 weights) = 6480; two gradients.
  // Forward moves x 576 + weight 270 + bias 10 + out 2 * 5 * 12 * 2 = 240: 1096 bytes. Backward
  // their gradients, and x and weight again: 1096 + 846 = 1942.
  const OpAttributes strided{.width = 5, .bias = true, .kernel = 3, .stride = 2, .padding = 1};
  CHECK(costs("conv2d", strided, {kImages}) == "flops 6480 / 12960, moved 1096 / 1942");
  // Images have no gradient: 6480 once, and 576 bytes less.
  CHECK(costs("conv2d", strided, {kFrozenImages}) == "flops 6480 / 6480, moved 1096 / 1366");
  // In 3 groups each output channel sees one input channel: 2 * 24 * (6 * 1 * 9 = 54) = 2592.
  const OpAttributes grouped{.width = 6, .kernel = 3, .stride = 2, .padding = 1, .groups = 3};
  CHECK(costs("conv2d", grouped, {kImages}).starts_with("flops 2592 / 5184"));
}

TEST_CASE("a transposed convolution multiplies its whole weight at each position of its input") {
  // Sides: (8 - 1) * 2 + 2 = 16 and 12. 2 * (2 * 8 * 6 positions) * (3 * 5 * 2 * 2 = 60) = 11520.
  const OpAttributes up{.width = 5, .kernel = 2, .stride = 2};
  CHECK(derived("conv_transpose2d", up, {kImages}) == "bf16 [2, 5, 16, 12] | saves: x out.weight");
  CHECK(costs("conv_transpose2d", up, {kImages}).starts_with("flops 11520 / 23040"));
}

TEST_CASE("batch norm saves its input, its weight and fp32 statistics of each channel") {
  CHECK(derived("batch_norm", {}, {kImages}) ==
        "bf16 [2, 3, 8, 6] | aux: out.mean fp32 [3] | aux: out.invstd fp32 [3] | "
        "saves: x out.weight out.mean out.invstd");
  CHECK(graph_of("batch_norm", {}, {kImages}, true).ops[0].side_effect == SideEffect::kOnce);
}

TEST_CASE("pools save what they pool, and max_pool2d where each maximum was") {
  CHECK(derived("max_pool2d", {.kernel = 2}, {kImages}) ==
        "bf16 [2, 3, 4, 3] | aux: out.indices int64 [2, 3, 4, 3] | saves: x out.indices");
  // (8 + 2 - 3) / 2 + 1 = 4, (6 + 2 - 3) / 2 + 1 = 3.
  CHECK(derived("avg_pool2d", {.kernel = 3, .stride = 2, .padding = 1}, {kImages}) ==
        "bf16 [2, 3, 4, 3] | saves: x");
  CHECK(derived("adaptive_avg_pool2d", {.rows = 7}, {kImages}) == "bf16 [2, 3, 7, 7] | saves: x");
  CHECK(derived("global_avg_pool", {}, {kImages}) == "bf16 [2, 3, 1, 1]");
}

TEST_CASE("relu saves its output, and add nothing, also over their first input") {
  CHECK(derived("relu", {}, {kImages}) == "bf16 [2, 3, 8, 6] | saves: out");
  const Graph relu = in_place_graph("relu", {});
  CHECK(derived_text(relu, relu.ops[1]) == "bf16 [2, 3, 8, 6] view | saves: out");
  CHECK(relu.ops[1].in_place);
  // Read and written; in backward two gradients and the output.
  CHECK(relu.ops[1].forward.moved_bytes == 2 * 576);
  CHECK(relu.ops[1].backward.moved_bytes == 3 * 576);
  const Graph add = in_place_graph("add", {{"y", {2, 3, 8, 6}}});
  CHECK(derived_text(add, add.ops[1]) == "bf16 [2, 3, 8, 6] view | aliases: x y");
  CHECK(add.ops[1].forward.moved_bytes == 3 * 576);
}

TEST_CASE("images become rows and tokens by views, whose gradient passes by alias") {
  CHECK(derived("flatten", {}, {kImages}) == "bf16 [2, 144] view | aliases: x");
  CHECK(derived("to_tokens", {}, {kImages}) == "bf16 [2, 48, 3] view | aliases: x");
  CHECK(derived("heads_first", {}, {{"x", {6, 8, 4}}}) == "bf16 [1, 4, 6, 8] view | aliases: x");
}

TEST_CASE("a part of a tensor is a view, whose gradient is a new tensor as large as the whole") {
  const Given tokens{"x", {2, 4, 8}};
  CHECK(derived("crop", {.rows = 4}, {kImages}) == "bf16 [2, 3, 4, 4] view");
  CHECK(derived("first_token", {}, {tokens}) == "bf16 [2, 8] view");
  CHECK(costs("first_token", {}, {tokens}) == "flops 0 / 0, moved 0 / 128");
}

TEST_CASE("learned tokens and positions save nothing") {
  const Given tokens{"x", {2, 4, 8}};
  CHECK(derived("prepend_token", {}, {tokens}) == "bf16 [2, 5, 8] | aliases: x");
  CHECK(derived("add_weight", {}, {tokens}) == "bf16 [2, 4, 8] | aliases: x");
  CHECK(graph_of("prepend_token", {}, {tokens}, true).tensors[1].shape == Shape{8});
  CHECK(graph_of("add_weight", {}, {tokens}, true).tensors[1].shape == Shape{4, 8});
}

TEST_CASE("tensors are put together along a dim of choice") {
  const Given narrow{"y", {2, 1, 8, 6}};
  CHECK(derived("cat", {.axis = 1}, {kImages, narrow}) == "bf16 [2, 4, 8, 6] | aliases: x y");
  CHECK(derived("cat", {.axis = 0}, {kImages, {"y", {2, 3, 8, 6}}}) ==
        "bf16 [4, 3, 8, 6] | aliases: x y");
  CHECK(derived("cat", {.axis = -3}, {kImages, narrow}) == "bf16 [2, 4, 8, 6] | aliases: x y");
  CHECK(refusal("cat", {.axis = 2}, {kImages, narrow}) ==
        "op 'out': [2, 3, 8, 6] and [2, 1, 8, 6] differ outside dim 2");
  CHECK(refusal("cat", {.axis = 4}, {kImages, narrow}) ==
        "op 'out': axis 4 is none of [2, 3, 8, 6]");
  CHECK(refusal("cat", {.axis = 1}, {kImages, {"y", {2, 3}}}) ==
        "op 'out': [2, 3, 8, 6] and [2, 3] differ outside dim 1");
}

TEST_CASE("a loss has a label for each pixel") {
  CHECK(derived("nll_loss", {}, {kImages, {"labels", {2, 8, 6}, DataType::kInt64, false}}) ==
        "fp32 [1] | saves: x labels");
  CHECK(refusal("nll_loss", {}, {kImages, {"labels", {2}, DataType::kInt64, false}}) ==
        "op 'out': labels [2] do not match logits [2, 3, 8, 6]");
}

TEST_CASE("kinds of images refuse shapes that do not fit") {
  const Given tokens{"x", {2, 4, 8}};
  for (const char* kind : {"conv2d", "batch_norm", "max_pool2d", "to_tokens", "crop"}) {
    CAPTURE(kind);
    CHECK(refusal(kind, {.width = 1, .rows = 1, .kernel = 1}, {tokens}) ==
          "op 'out': 'x' must be [batch, channels, height, width], found [2, 4, 8]");
  }
  for (const char* kind : {"first_token", "prepend_token", "add_weight"}) {
    CAPTURE(kind);
    CHECK(refusal(kind, {}, {kImages}) ==
          "op 'out': 'x' must be [batch, tokens, width], found [2, 3, 8, 6]");
  }
  CHECK(refusal("conv2d", {.width = 1, .kernel = 7}, {kImages}) ==
        "op 'out': a kernel of 7 x 7 does not fit in 'x' [2, 3, 8, 6], padding 0");
  CHECK(refusal("conv2d", {.width = 4, .kernel = 1, .groups = 3}, {kImages}) ==
        "op 'out': 3 channels to 4 do not divide into 3 groups");
  CHECK(refusal("conv_transpose2d", {.width = 1, .kernel = 1, .padding = 3}, {kImages}) ==
        "op 'out': a padding of 3 leaves nothing");
  CHECK(refusal("max_pool2d", {.kernel = 2, .padding = 2}, {kImages}) ==
        "op 'out': a padding of 2 is more than half of its kernel 2");
  CHECK(refusal("crop", {.rows = 7}, {kImages}) ==
        "op 'out': 7 x 7 is larger than 'x' [2, 3, 8, 6]");
  CHECK(refusal("heads_first", {}, {kImages}) ==
        "op 'out': 'x' must be [rows, columns, heads], found [2, 3, 8, 6]");
}

}  // namespace cairn
