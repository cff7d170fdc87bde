#include <doctest/doctest.h>
#include <fmt/format.h>

#include "graph/error.h"
#include "graph/graph_builder.h"
#include "graph/precision.h"
#include "tests/graph/op_text.h"

// Linear layers with weights of few bits. What they allocate is held against bitsandbytes' own code
// in tests/oracle/quantized_test.py; here is the arithmetic.

namespace cairn {
namespace {

const Given kX = {.name = "x", .shape = {2, 4, 64}};  // 8 rows, 512 elements

// "name bytes" of what is resident beside the input, buffers in brackets.
std::string resident(const Graph& graph) {
  std::string text;
  for (const Tensor& tensor : graph.tensors) {
    if (tensor.role != TensorRole::kParameter) continue;
    CHECK_FALSE(tensor.requires_grad);
    const std::string words = fmt::format("{} {}", tensor.name, tensor.bytes);
    text += (text.empty() ? "" : " ") + (tensor.is_buffer ? "(" + words + ")" : words);
  }
  return text;
}

}  // namespace

TEST_CASE("two 4-bit elements are a byte, the last of an odd number one of its own") {
  CHECK(tensor_bytes(DataType::kNf4, {64, 64}, "w") == 2048);
  CHECK(tensor_bytes(DataType::kFp4, {7, 3}, "w") == 11);
  CHECK(tensor_bytes(DataType::kNf4, {1}, "w") == 1);
  CHECK(tensor_bytes(DataType::kInt8, {7, 3}, "w") == 21);
  CHECK(bits_per_element(DataType::kBFloat16) == 16);
  CHECK(bytes_per_element(DataType::kInt64) == 8);
}

TEST_CASE("a 4-bit weight has an fp32 scale for each 64 of its elements, and a table") {
  // 32 * 64 elements: 1,024 bytes and 32 scales.
  const Graph graph = graph_of("linear_4bit", {.width = 32}, {kX}, true);
  CHECK(resident(graph) == "out.weight 1024 (out.absmax 128) (out.quant_map 64)");
  CHECK(parameter_count(graph) == 2048);
  CHECK(parameter_bytes(graph) == 1216);
  CHECK(trainable_parameter_count(graph) == 0);
  CHECK(graph.tensors[1].data_type == DataType::kNf4);
  CHECK(graph_of("linear_4bit", {.width = 32, .fp4 = true}, {kX}, true).tensors[1].data_type ==
        DataType::kFp4);
}

TEST_CASE("nested scales are bytes, with an fp32 scale for each 256 of them") {
  CHECK(resident(graph_of("linear_4bit", {.width = 32, .nested = true}, {kX}, true)) ==
        "out.weight 1024 (out.absmax 32) (out.quant_map 64) (out.nested_absmax 4) "
        "(out.nested_quant_map 1024) (out.nested_offset 4)");
  // 257 * 64 elements: 257 scales, of which one begins a second group.
  CHECK(resident(graph_of("linear_4bit", {.width = 257, .nested = true}, {kX}, true)) ==
        "out.weight 8224 (out.absmax 257) (out.quant_map 64) (out.nested_absmax 8) "
        "(out.nested_quant_map 1024) (out.nested_offset 4)");
  // 3 * 7 elements: a block that is not full.
  const Given odd = {.name = "x", .shape = {1, 2, 7}};
  CHECK(resident(graph_of("linear_4bit", {.width = 3, .bias = true}, {odd}, true)) ==
        "out.weight 11 (out.absmax 4) (out.quant_map 64) out.bias 6");
}

TEST_CASE("a 4-bit product keeps nothing and makes its weight in 16 bits, forward and backward") {
  CHECK(derived("linear_4bit", {.width = 32}, {kX}) == "bf16 [2, 4, 32]");
  // 2 * 8 * 64 * 32 FLOPs, one product each way; x 1,024, packed 1,024, the weight twice, out 512.
  CHECK(costs("linear_4bit", {.width = 32}, {kX}) ==
        "flops 32768 / 32768, moved 10752 / 10752, workspace 4096 / 4096");
  // Scales in fp32, before the offset and behind it; in Backward they are gone before the product.
  CHECK(costs("linear_4bit", {.width = 32, .nested = true}, {kX}) ==
        "flops 32768 / 32768, moved 10752 / 10752, workspace 4352 / 4096");
  // One row: the scales' 512 bytes are more than the gradient's 128.
  const Given row = {.name = "x", .shape = {1, 1, 64}};
  CHECK(costs("linear_4bit", {.width = 128, .nested = true}, {row})
            .ends_with("workspace 17408 / 16768"));
  // fp32: the 16 bits that were quantised, 4,096, and the same in fp32, less the gradient's 2,048.
  const Given wide = {.name = "x", .shape = {2, 4, 64}, .type = DataType::kFloat32};
  CHECK(costs("linear_4bit", {.width = 32}, {wide}).ends_with("workspace 8192 / 10240"));
}

TEST_CASE("the 4-bit product of 2023 keeps its input, and converts what was quantised from fp16") {
  CHECK(derived("linear_4bit_saving_input", {.width = 32}, {kX}) == "bf16 [2, 4, 32] | saves: x");
  // The weight in fp16 and in bf16, 4,096 bytes each, before the product's 512 or the gradient's
  // 1,024 are there.
  CHECK(costs("linear_4bit_saving_input", {.width = 32}, {kX}).ends_with("workspace 7680 / 7168"));
  CHECK(costs("linear_4bit_saving_input", {.width = 32, .nested = true}, {kX})
            .ends_with("workspace 7680 / 7168"));
  // fp16 stays: the weight alone, which with scales in fp32 is made before the product is.
  const Given half = {.name = "x", .shape = {2, 4, 64}, .type = DataType::kFloat16};
  CHECK(costs("linear_4bit_saving_input", {.width = 32, .nested = true}, {half})
            .ends_with("workspace 4096 / 4096"));
}

TEST_CASE("without a gradient of its input a quantised product has no Backward") {
  const Given x = {.name = "x", .shape = {2, 4, 64}, .requires_grad = false};
  CHECK(costs("linear_4bit", {.width = 32}, {x}) ==
        "flops 32768 / 0, moved 10752 / 512, workspace 4096 / 0");
  CHECK(derived("linear_8bit", {.width = 32}, {x}) == "bf16 [2, 4, 32]");
}

TEST_CASE("under autocast a 4-bit product of fp32 comes out in autocast's type") {
  GraphBuilder builder("autocast", *find_precision("autocast-bf16"));
  const TensorId x = builder.add_input("x", DataType::kFloat32, {2, 4, 64}, true);
  const TensorId y = builder.add_op({.name = "y",
                                     .kind = find_op_kind("linear_4bit"),
                                     .attributes = {.width = 32, .bias = true},
                                     .inputs = {x}})[0];
  const Graph graph = builder.build(y);
  CHECK(graph.ops.size() == 1);  // the casts are within
  CHECK(graph.tensor(y).data_type == DataType::kBFloat16);
  CHECK(resident(graph) == "y.weight 1024 (y.absmax 128) (y.quant_map 64) y.bias 128");
  // The weight in fp32, and weight, input and bias in bf16.
  CHECK(graph.ops[0].workspace_bytes == 8192 + 4096 + 1024 + 64);
  // The weight in bf16 and x's gradient in bf16, less the same in fp32.
  CHECK(graph.ops[0].backward_workspace_bytes == 4096 + 1024 - 2048);
}

TEST_CASE("an 8-bit product keeps its input, and has an fp32 scale a row of its weight") {
  const Graph graph = graph_of("linear_8bit", {.width = 32, .bias = true}, {kX}, true);
  CHECK(resident(graph) == "out.weight 2048 (out.SCB 128) out.bias 64");
  CHECK(derived("linear_8bit", {.width = 32}, {kX}) == "bf16 [2, 4, 32] | saves: x");
  // Quantising: x in fp16, its absolute values, flags, int8 and scales, less the output's 512:
  // 1,024 + 1,024 + 512 + 544 - 512. Backward: the weight in bf16.
  CHECK(costs("linear_8bit", {.width = 32}, {kX}) ==
        "flops 32768 / 32768, moved 7744 / 11776, workspace 2592 / 4096");
  // Multiplying: int8 and scales, the product in int32 and in fp16: 544 + 8,192 + 4,096.
  CHECK(costs("linear_8bit", {.width = 256}, {kX}).ends_with("workspace 12832 / 32768"));
  // fp16 needs no copies.
  const Given half = {.name = "x", .shape = {2, 4, 64}, .type = DataType::kFloat16};
  CHECK(costs("linear_8bit", {.width = 256}, {half}).ends_with("workspace 8736 / 32768"));
}

TEST_CASE("quantised weights are frozen where all is trained, and others are not") {
  GraphBuilder builder("both", DataType::kBFloat16, like_parameters({.state_count = 2}));
  const TensorId x = builder.add_input("x", DataType::kBFloat16, {1, 2, 64}, true);
  const TensorId a = builder.add_op({.name = "a",
                                     .kind = find_op_kind("linear_4bit"),
                                     .attributes = {.width = 64},
                                     .inputs = {x}})[0];
  const TensorId b = builder.add_op(
      {.name = "b", .kind = find_op_kind("linear"), .attributes = {.width = 8}, .inputs = {a}})[0];
  const Graph graph = builder.build(b);
  CHECK(trainable_parameter_count(graph) == 8 * 64);
  CHECK(parameter_count(graph) == 64 * 64 + 8 * 64);
  CHECK(optimizer_state_bytes(graph) == 2 * 2 * 8 * 64);
}

}  // namespace cairn
