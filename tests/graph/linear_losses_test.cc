// Losses that have the head in themselves, and kernels that write gradients in place.

#include <doctest/doctest.h>

#include "tests/graph/op_text.h"

namespace cairn {
namespace {

// 8 tokens of width 4, a head of 12 classes: 3 chunks would be as large as x, so that a chunk has
// the next power of 2 of ceil(8 / 3) rows: 4.
const Given kX{"x", {2, 4, 4}};
const Given kFrozen{"x", {2, 4, 4}, DataType::kBFloat16, false};
const Given kLabels{"labels", {2, 4}, DataType::kInt64, false};
const OpAttributes kHead{.width = 12};

TEST_CASE("liger's fused loss makes all gradients in forward, and saves nothing else") {
  CHECK(
      derived("fused_linear_cross_entropy", kHead, {kX, kLabels}) ==
      "fp32 [1] | aux: out.gradient_input bf16 [2, 4, 4] | aux: out.gradient_weight bf16 [12, 4] | "
      "saves: out.gradient_input out.gradient_weight | gradients: x over out.gradient_input "
      "out.weight over out.gradient_weight");
  // One product of 2 * 8 * 4 * 12 FLOPs for the logits and each gradient; logits of a chunk, 4 * 12
  // * 2, and 5 bytes a token.
  const Graph graph = graph_of("fused_linear_cross_entropy", kHead, {kX, kLabels}, true);
  CHECK(graph.ops[0].forward.flops == 3 * 768);
  CHECK(graph.ops[0].backward.flops == 0);
  CHECK(graph.ops[0].workspace_bytes == 96 + 40);
}

TEST_CASE("a frozen head has no gradient of its weight") {
  CHECK(derived("fused_linear_cross_entropy", kHead, {kX, kLabels}, false) ==
        "fp32 [1] | aux: out.gradient_input bf16 [2, 4, 4] | saves: out.gradient_input | "
        "gradients: x "
        "over out.gradient_input");
  CHECK(derived("cut_cross_entropy", kHead, {kX, kLabels}, false) ==
        "fp32 [1] | aux: out.logsumexp fp32 [2, 4, 1] | aux: out.mean_logits fp32 [12] | saves: x "
        "labels out.weight out.logsumexp out.mean_logits");
  CHECK(refusal("fused_linear_cross_entropy", kHead, {kFrozen, kLabels}) ==
        "op 'out': it makes no gradient of the weight where its input needs none");
}

TEST_CASE("torch's chunked loss has half as many rows in a chunk, and fp32 logits in bf16") {
  CHECK(
      derived("chunked_linear_cross_entropy", {.width = 12, .bias = true}, {kX, kLabels}) ==
      "bf16 [1] | aux: out.gradient_input bf16 [2, 4, 4] | aux: out.gradient_weight bf16 [12, 4] | "
      "aux: out.gradient_bias bf16 [12] | saves: out.gradient_input out.gradient_weight "
      "out.gradient_bias | gradients: x over out.gradient_input out.weight over "
      "out.gradient_weight out.bias over out.gradient_bias");
  // 2 rows: logits (4 + 2) * 24, x in fp32 4 * 8, rows of the weight 2 * 8, and 13 a token.
  const Graph graph = graph_of("chunked_linear_cross_entropy", kHead, {kX, kLabels}, true);
  CHECK(graph.ops[0].workspace_bytes == 144 + 32 + 16 + 104);
  // Zeros for the gradients of the gradients: 2 * 32 of x, 2 * 48 of the weight.
  CHECK(graph.ops[0].backward_workspace_bytes == 64 + 96);
  CHECK(refusal("chunked_linear_cross_entropy", {.width = 12, .softcap = true}, {kX, kLabels}) ==
        "op 'out': torch.nn.functional.linear_cross_entropy has no softcap of the logits");
}

TEST_CASE("cut cross-entropy saves its inputs and makes the logits again in backward") {
  const Graph graph = graph_of("cut_cross_entropy", kHead, {kX, kLabels}, true);
  CHECK(graph.ops[0].forward.flops == 768);
  CHECK(graph.ops[0].backward.flops == 3 * 768);
  CHECK(graph.ops[0].workspace_bytes == 4 * 8);
  // Order and locks of 12 classes, locks of 8 rows, as ceil(4 / 64) = 1 column.
  CHECK(graph.ops[0].backward_workspace_bytes == 4 * 12 + 4 * 12 + 4 * 8);
  CHECK(refusal("cut_cross_entropy", {.width = 12, .bias = true}, {kX, kLabels}) ==
        "op 'out': cut-cross-entropy has no bias");
  CHECK(refusal("cut_cross_entropy", kHead, {{"x", {2, 4, 4}, DataType::kFloat32}, kLabels}) ==
        "op 'out': cut-cross-entropy takes 16-bit types only, found fp32");
  CHECK(refusal("cut_cross_entropy", kHead, {kX, {"labels", {2}, DataType::kInt64, false}}) ==
        "op 'out': labels [2] do not match [2, 4, 4]");
}

TEST_CASE("kernels in place have no tensor for the gradient of their input") {
  const Given cos{"cos", {1, 4, 2}, DataType::kBFloat16, false};
  const Given sin{"sin", {1, 4, 2}, DataType::kBFloat16, false};
  CHECK(
      derived("rms_norm", {.gradient_in_place = true}, {kX}) ==
      "bf16 [2, 4, 4] | aux: out.rstd fp32 [2, 4, 1] | saves: x out.weight out.rstd | aliases: x");
  CHECK(derived("copy", {.gradient_in_place = true}, {kX}) == "bf16 [2, 4, 4] | aliases: x");
  CHECK(refusal("rope", {.in_place = true}, {kX, cos, sin}) ==
        "op 'out' overwrites 'x', which lives for the whole step");
  CHECK(refusal("swiglu", {.gradient_in_place = true}, {kX, {"y", {2, 4, 4}}}) ==
        "op 'out': its Backward writes the gradient of 'x' over 'x', which something else still "
        "reads");
}

}  // namespace
}  // namespace cairn
