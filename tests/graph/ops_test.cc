// What each op kind makes, saves and costs, on small shapes. Kinds of images: image_ops_test.cc.

#include <doctest/doctest.h>

#include <string>

#include "graph/ops/op_kind.h"
#include "tests/graph/op_text.h"

namespace cairn {
namespace {

// 2 samples, 4 tokens, width 8: 8 rows, 64 elements, 128 bytes in bf16.
const Given kX = {"x", {2, 4, 8}};
const Given kFrozenX = {"x", {2, 4, 8}, DataType::kBFloat16, false};
const Given kLabels = {"labels", {2, 4}, DataType::kInt64, false};

}  // namespace

TEST_CASE("every kind has a name of its own, and every attribute is found by its name") {
  for (const std::string& name : op_kind_names()) {
    REQUIRE(find_op_kind(name) != nullptr);
    CHECK(find_op_kind(name)->name == name);
    for (const AttributeKey key : find_op_kind(name)->attributes) {
      CHECK(find_attribute(attribute_name(key)) == key);
    }
  }
  CHECK(op_kind_names().size() == 92);
  CHECK(find_op_kind("linaer") == nullptr);
  CHECK_FALSE(find_attribute("widht").has_value());
}

TEST_CASE("every kind but custom says where its rule is from") {
  for (const std::string& name : op_kind_names()) {
    CAPTURE(name);
    CHECK(find_op_kind(name)->source.empty() == (name == "custom"));
  }
  CHECK(find_op_kind("linear")->source == "derivatives.yaml: mm");
}

TEST_CASE("linear saves its input for the weight and its weight for the input") {
  CHECK(derived("linear", {.width = 6, .bias = true}, {kX}) ==
        "bf16 [2, 4, 6] | saves: x out.weight");
  CHECK(derived("linear", {.width = 6}, {kX}, false) == "bf16 [2, 4, 6] | saves: out.weight");
  CHECK(derived("linear", {.width = 6}, {kFrozenX}) == "bf16 [2, 4, 6] | saves: x");
  CHECK(derived("linear", {.width = 6}, {kFrozenX}, false) == "bf16 [2, 4, 6]");
}

TEST_CASE("linear costs 2 FLOPs an element of each product") {
  // One product: 2 * 8 rows * 8 in * 6 out = 768; two in backward.
  // Forward: x 128 + weight 6 * 8 * 2 = 96 + bias 12 + out 8 * 6 * 2 = 96: 332 bytes.
  // Backward: the gradients of all four, 332, and x and weight again, 224: 556.
  CHECK(costs("linear", {.width = 6, .bias = true}, {kX}) == "flops 768 / 1536, moved 332 / 556");
  // A frozen weight: one product, gradients of x and out 224, weight 96.
  CHECK(costs("linear", {.width = 6}, {kX}, false) == "flops 768 / 768, moved 320 / 320");
}

TEST_CASE("embedding saves its ids and moves the rows it looks up, not the table") {
  const Given ids{"ids", {2, 4}, DataType::kInt64, false};
  CHECK(derived("embedding", {.width = 8, .rows = 1000}, {ids}) == "bf16 [2, 4, 8] | saves: ids");
  CHECK(derived("embedding", {.width = 8, .rows = 1000}, {ids}, false) == "bf16 [2, 4, 8]");
  // 8 rows of 16 bytes, read and written.
  CHECK(costs("embedding", {.width = 8, .rows = 1000}, {ids}) == "flops 0 / 0, moved 256 / 256");
}

TEST_CASE("norms save their input, their weight and fp32 statistics of each row") {
  CHECK(derived("layer_norm", {.bias = true}, {kX}) ==
        "bf16 [2, 4, 8] | aux: out.mean fp32 [2, 4, 1] | aux: out.rstd fp32 [2, 4, 1] | "
        "saves: x out.weight out.bias out.mean out.rstd");
  CHECK(derived("rms_norm", {}, {kX}) ==
        "bf16 [2, 4, 8] | aux: out.rstd fp32 [2, 4, 1] | saves: x out.weight out.rstd");
  CHECK(derived("rms_norm", {}, {kFrozenX}) ==
        "bf16 [2, 4, 8] | aux: out.rstd fp32 [2, 4, 1] | saves: x out.rstd");
  // Forward: x 128 + weight 16 + out 128 + rstd 8 * 4 = 32: 304.
  // Backward: gradients of x, weight and out 272, saved x 128 + weight 16 + rstd 32: 448.
  CHECK(costs("rms_norm", {}, {kX}) == "flops 0 / 0, moved 304 / 448");
}

TEST_CASE("rope saves its tables only") {
  const Given cos{"cos", {1, 4, 8}, DataType::kBFloat16, false};
  const Given sin{"sin", {1, 4, 8}, DataType::kBFloat16, false};
  CHECK(derived("rope", {}, {kX, cos, sin}) == "bf16 [2, 4, 8] | saves: cos sin");
  CHECK(derived("rope", {}, {kFrozenX, cos, sin}) == "bf16 [2, 4, 8]");
}

TEST_CASE("attention saves q, k, v, its output and the logsumexp") {
  const Given k{"k", {2, 4, 4}};
  const Given v{"v", {2, 4, 4}};
  const OpAttributes grouped{.heads = 4, .kv_heads = 2, .causal = true};
  CHECK(derived("attention", grouped, {kX, k, v}) ==
        "bf16 [2, 4, 8] | aux: out.logsumexp fp32 [2, 4, 4] | saves: x k v out out.logsumexp");
  // One product: 2 * batch 2 * heads 4 * 4 * 4 * head_dim 2 = 512. Two forward, five backward;
  // a causal kernel runs half of them.
  // Moved: q 128 + k 64 + v 64 + out 128 + logsumexp 4 * 32 = 128: 512; backward: gradients 384,
  // saved 512: 896.
  // Workspace: 2 * 4 * 128 rows of 32 fp32: 131072, row sums 4096, k and v by query head 2 * 128.
  CHECK(costs("attention", grouped, {kX, k, v}) ==
        "flops 1024 / 2560, moved 512 / 896, executed 512 / 1280, workspace 0 / 135424");
  const Given wide_k{"k", {2, 4, 8}};
  const Given wide_v{"v", {2, 4, 8}};
  CHECK(costs("attention", {.heads = 4}, {kX, wide_k, wide_v}) ==
        "flops 1024 / 2560, moved 640 / 1152, workspace 0 / 135168");
}

TEST_CASE("a window is what a causal kernel leaves out") {
  const Given k{"k", {2, 4, 8}};
  const Given v{"v", {2, 4, 8}};
  // Of 16 pairs a causal kernel runs 8 and one with a window of 2 runs 4 * 2 - 2 * 2 / 2 = 6; a
  // product of 512 FLOPs runs 192, two in forward and five in backward.
  CHECK(costs("attention", {.heads = 4, .causal = true, .window = 2}, {kX, k, v}) ==
        "flops 1024 / 2560, moved 640 / 1152, executed 384 / 960, workspace 0 / 135168");
  CHECK(costs("attention", {.heads = 4, .causal = true, .window = 9}, {kX, k, v}) ==
        "flops 1024 / 2560, moved 640 / 1152, executed 512 / 1280, workspace 0 / 135168");
  CHECK(refusal("attention", {.heads = 4, .window = 2}, {kX, k, v}) ==
        "op 'out': a window is of a causal kernel without a bias");
}

TEST_CASE("attention with a mask keeps the mask's numbers, and runs every pair") {
  const Given k{"k", {2, 4, 8}};
  const Given v{"v", {2, 4, 8}};
  // Rows of the mask are multiples of 8, of the logsumexp multiples of 32.
  CHECK(derived("masked_attention", {.heads = 4}, {kX, k, v}) ==
        "bf16 [2, 4, 8] | aux: out.bias bf16 [2, 1, 4, 8] | aux: out.logsumexp fp32 [2, 4, 32] | "
        "saves: x k v out out.bias out.logsumexp");
  // Moved: q, k, v, out 512, bias 128, logsumexp 1024: 1664; backward: gradients 512, saved 1664.
  // Workspace: 2 * 4 * 64 rows of 64 fp32: 131072, row sums 2 * 4 * 4 * 4 = 128.
  CHECK(costs("masked_attention", {.heads = 4}, {kX, k, v}) ==
        "flops 1024 / 2560, moved 1664 / 2176, workspace 0 / 131200");
  // One head of k and v, expanded: their gradients are 2 * 128 before the sum.
  const Given one_k{"k", {2, 4, 2}};
  const Given one_v{"v", {2, 4, 2}};
  const OpAttributes dropped{.heads = 4, .kv_heads = 1, .probability = 0.1};
  CHECK(derived("masked_attention", dropped, {kX, one_k, one_v}) ==
        "bf16 [2, 4, 8] | aux: out.bias bf16 [2, 1, 4, 8] | aux: out.logsumexp fp32 [2, 4, 32] | "
        "aux: out.rng_state int64 [2] | "
        "saves: x k v out out.bias out.logsumexp out.rng_state");
  CHECK(costs("masked_attention", {.heads = 4, .kv_heads = 1}, {kX, one_k, one_v}) ==
        "flops 1024 / 2560, moved 1472 / 1792, workspace 0 / 131456");
}

TEST_CASE("heads as a dim of their own are a view, and so are rows of one sample") {
  const Given by_head{"x", {2, 4, 4, 2}};
  const Given one_sample{"x", {1, 4, 8}};
  CHECK(derived("split_heads", {.heads = 4}, {kX}) == "bf16 [2, 4, 4, 2] view | aliases: x");
  CHECK(derived("merge_heads", {}, {by_head}) == "bf16 [2, 4, 8] view | aliases: x");
  CHECK(costs("split_heads", {.heads = 4}, {kX}) == "flops 0 / 0, moved 0 / 0");
  CHECK(refusal("split_heads", {.heads = 3}, {kX}) ==
        "op 'out': the width 8 of 'x' does not divide into 3 heads");
  CHECK(refusal("merge_heads", {}, {{"x", {8}}}) ==
        "op 'out': 'x' must be [..., heads, head_dim], found [8]");
  CHECK(derived("matmul_rows", {}, {kX}) == "bf16 [2, 4, 8] | aliases: x");
  CHECK(derived("matmul_rows", {}, {one_sample}) == "bf16 [1, 4, 8] view | aliases: x");
}

TEST_CASE("attention with dropout keeps its random state and replays it") {
  const Given k{"k", {2, 4, 8}};
  const Given v{"v", {2, 4, 8}};
  CHECK(derived("attention", {.heads = 4, .probability = 0.1}, {kX, k, v}) ==
        "bf16 [2, 4, 8] | aux: out.logsumexp fp32 [2, 4, 4] | aux: out.rng_state int64 [2] | "
        "saves: x k v out out.logsumexp out.rng_state");
  CHECK(
      graph_of("attention", {.heads = 4, .probability = 0.1}, {kX, k, v}, true).ops[0].recompute ==
      RecomputePolicy::kReplayRandom);
}

TEST_CASE("a decoder attends to other tokens than its own") {
  // q: 4 tokens, 4 heads of 2; k and v: 6 tokens.
  const Given k{"k", {2, 6, 8}};
  const Given v{"v", {2, 6, 8}};
  CHECK(derived("attention", {.heads = 4}, {kX, k, v}) ==
        "bf16 [2, 4, 8] | aux: out.logsumexp fp32 [2, 4, 4] | saves: x k v out out.logsumexp");
  CHECK(derived("attention_scores", {.heads = 4}, {kX, k}) == "bf16 [2, 4, 4, 6] | saves: x k");
  CHECK(derived("attention_values", {.heads = 4}, {{"p", {2, 4, 4, 6}}, v}) ==
        "bf16 [2, 4, 8] | saves: p v");
  // 2 * batch 2 * heads 4 * 4 * 6 * head_dim 2 = 768.
  CHECK(costs("attention_scores", {.heads = 4}, {kX, k}).starts_with("flops 768 / 1536"));
  CHECK(refusal("attention", {.heads = 4, .causal = true}, {kX, k, v}) ==
        "op 'out': a causal kernel has as many keys as queries");
}

TEST_CASE("attention with a bias saves it, or a copy where its rows are no multiple of 8") {
  const Given bias{"bias", {1, 4, 4, 8}, DataType::kBFloat16, false};
  const Given k{"k", {2, 8, 8}};
  const Given v{"v", {2, 8, 8}};
  // The logsumexp has rows of a multiple of 32.
  CHECK(derived("attention", {.heads = 4}, {kX, k, v, bias}) ==
        "bf16 [2, 4, 8] | aux: out.logsumexp fp32 [2, 4, 32] | saves: x k v bias out "
        "out.logsumexp");
  const Given odd_bias{"bias", {1, 4, 4, 6}, DataType::kBFloat16, false};
  const Given odd_k{"k", {2, 6, 8}};
  const Given odd_v{"v", {2, 6, 8}};
  CHECK(derived("attention", {.heads = 4}, {kX, odd_k, odd_v, odd_bias}) ==
        "bf16 [2, 4, 8] | aux: out.bias bf16 [1, 4, 4, 8] | aux: out.logsumexp fp32 [2, 4, 32] | "
        "saves: x k v out out.bias out.logsumexp");
  // A learned one has a gradient for every sample first, in rows of a multiple of 16: 2 * 4 * 4 *
  // 16
  // * 2 = 1024 bytes. Besides 4 * 2 * 4 * 64 * 64 = 131072 of dq and 4 * 2 * 4 * 4 = 128.
  const Given learned{"bias", {1, 4, 4, 8}};
  CHECK(
      graph_of("attention", {.heads = 4}, {kX, k, v, bias}, true).ops[0].backward_workspace_bytes ==
      131200);
  CHECK(graph_of("attention", {.heads = 4}, {kX, k, v, learned}, true)
            .ops[0]
            .backward_workspace_bytes == 132224);
  CHECK(refusal("attention", {.heads = 4}, {kX, k, v, {"bias", {1, 4, 4, 4}}}) ==
        "op 'out': 'bias' must be [1, 4, 4, 8], found [1, 4, 4, 4]");
  CHECK(refusal("attention", {.heads = 4, .bias = true}, {kX, k, v}) ==
        "op 'out': with 'bias' it takes a fourth input, the bias");
  CHECK(refusal("attention", {.heads = 4, .sinks = true}, {kX, k, v, bias}) ==
        "op 'out': with sinks it takes no fourth input");
  CHECK(refusal("attention", {.heads = 4, .causal = true, .window = 2}, {kX, k, v, bias}) ==
        "op 'out': a window is of a causal kernel without a bias");
}

TEST_CASE("a causal mask keeps a byte a pair of tokens") {
  CHECK(derived("mask_causal", {}, {{"x", {1, 4, 6, 6}}}) ==
        "bf16 [1, 4, 6, 6] | aux: out.flags bool [6, 6] | saves: out.flags");
}

TEST_CASE("the pieces of eager attention") {
  const Given k{"k", {2, 4, 8}};
  const Given narrow_k{"k", {2, 4, 4}};
  const Given probabilities{"p", {2, 4, 4, 4}};
  const Given frozen_p{"p", {2, 4, 4, 4}, DataType::kBFloat16, false};
  CHECK(derived("attention_scores", {.heads = 4}, {kX, k}) == "bf16 [2, 4, 4, 4] | saves: x k");
  // 2 * batch 2 * heads 4 * 4 * 4 * head_dim 2 = 512; moved: q 128 + k 128 + scores 256.
  CHECK(costs("attention_scores", {.heads = 4}, {kX, k}) == "flops 512 / 1024, moved 512 / 768");
  CHECK(derived("attention_values", {.heads = 4}, {probabilities, k}) ==
        "bf16 [2, 4, 8] | saves: p k");
  CHECK(derived("attention_values", {.heads = 4}, {frozen_p, k}) == "bf16 [2, 4, 8] | saves: p");
  CHECK(derived("repeat_kv", {.heads = 4, .kv_heads = 2}, {narrow_k}) == "bf16 [2, 4, 8]");
}

TEST_CASE("softmax and log_softmax save their outputs") {
  CHECK(derived("softmax", {}, {kX}) == "bf16 [2, 4, 8] | saves: out");
  const OpAttributes fp32{.data_type = DataType::kFloat32};
  CHECK(derived("softmax", fp32, {kX}) == "fp32 [2, 4, 8] | saves: out");
  CHECK(graph_of("softmax", fp32, {kX}, true).ops[0].name == "out.input.fp32");
  const Given half{"half", {2, 4, 8}, DataType::kFloat16};  // one kernel reads it as it is
  CHECK(derived("softmax", fp32, {half}) == "fp32 [2, 4, 8] | saves: out");
  CHECK(graph_of("softmax", fp32, {half}, true).ops.size() == 1);
  CHECK(derived("log_softmax", {}, {kX}) == "bf16 [2, 4, 8] | saves: out");
}

TEST_CASE("losses are one fp32 number and save 4 bytes a logit, or their input") {
  CHECK(derived("cross_entropy", {}, {kX, kLabels}) ==
        "fp32 [1] | aux: out.softmax fp32 [2, 4, 8] | saves: labels out.softmax");
  CHECK(derived("nll_loss", {}, {kX, kLabels}) == "fp32 [1] | saves: x labels");
}

TEST_CASE("add saves nothing and hands its gradient on to operands of its shape and type") {
  const Given same{"y", {2, 4, 8}};
  const Given row{"y", {8}};
  const Given fp32{"y", {2, 4, 8}, DataType::kFloat32};
  CHECK(derived("add", {}, {kX, same}) == "bf16 [2, 4, 8] | aliases: x y");
  CHECK(derived("add", {}, {kX, row}) == "bf16 [2, 4, 8] | aliases: x");
  CHECK(derived("add", {}, {kX, fp32}) == "fp32 [2, 4, 8] | aliases: y");
  // Three tensors of 128 bytes each way.
  CHECK(costs("add", {}, {kX, same}) == "flops 0 / 0, moved 384 / 384");
}

TEST_CASE("a product broadcasts dims of 1, and only mul_table one head's width") {
  const Given wide = {"wide", {2, 4, 16}};
  CHECK(refusal("mul", {}, {kX, wide}) == "op 'out': [2, 4, 8] and [2, 4, 16] do not fit together");
  CHECK(refusal("add", {}, {kX, wide}) == "op 'out': [2, 4, 8] and [2, 4, 16] do not fit together");
  const Given table = {"table", {1, 4, 4}, DataType::kBFloat16, false};
  CHECK(derived("mul_table", {}, {kX, table}) == "bf16 [2, 4, 8] | saves: table");
  CHECK(refusal("mul_table", {}, {table, kX}) ==
        "op 'out': a table [2, 4, 8] does not fit [1, 4, 4]");
}

TEST_CASE("mul saves an operand where the other has a gradient") {
  const Given y{"y", {2, 4, 8}};
  const Given frozen_y{"y", {2, 4, 8}, DataType::kBFloat16, false};
  CHECK(derived("mul", {}, {kX, y}) == "bf16 [2, 4, 8] | saves: x y");
  CHECK(derived("mul", {}, {kX, frozen_y}) == "bf16 [2, 4, 8] | saves: y");
  CHECK(derived("mul", {}, {kFrozenX, y}) == "bf16 [2, 4, 8] | saves: x");
  CHECK(derived("mul_weight", {}, {kX}) == "bf16 [2, 4, 8] | saves: x out.weight");
  CHECK(derived("mul_weight", {}, {kX}, false) == "bf16 [2, 4, 8] | saves: out.weight");
}

TEST_CASE("a product with 1 + weight keeps that sum for the gradient of x") {
  CHECK(derived("mul_one_plus_weight", {}, {kX}) ==
        "bf16 [2, 4, 8] | aux: out.sum bf16 [8] | saves: x out.sum");
  CHECK(derived("mul_one_plus_weight", {}, {kX}, false) ==
        "bf16 [2, 4, 8] | aux: out.sum bf16 [8] | saves: out.sum");
  // Forward: x 128, weight 16, sum 16, out 128. Backward: gradients of all but the sum 272, x 128,
  // sum 16. Workspace: the weight's gradient at x's size.
  CHECK(costs("mul_one_plus_weight", {}, {kX}) ==
        "flops 0 / 0, moved 288 / 416, workspace 0 / 128");
}

TEST_CASE("pointwise ops save their input, their output, or nothing") {
  for (const char* kind : {"gelu", "silu", "pow"}) {
    CAPTURE(kind);
    CHECK(derived(kind, {}, {kX}) == "bf16 [2, 4, 8] | saves: x");
  }
  for (const char* kind : {"tanh", "rsqrt", "relu"}) {
    CAPTURE(kind);
    CHECK(derived(kind, {}, {kX}) == "bf16 [2, 4, 8] | saves: out");
  }
  for (const char* kind : {"neg", "scale", "copy"}) {
    CAPTURE(kind);
    CHECK(derived(kind, {}, {kX}) == "bf16 [2, 4, 8]");
  }
  CHECK(derived("mean", {}, {kX}) == "bf16 [2, 4, 1]");
  CHECK(derived("add_scalar", {}, {kX}) == "bf16 [2, 4, 8] | aliases: x");
  CHECK(derived("cast", {.data_type = DataType::kFloat32}, {kX}) == "fp32 [2, 4, 8]");
  // gelu: x and out forward; both gradients and x again backward.
  CHECK(costs("gelu", {}, {kX}) == "flops 0 / 0, moved 256 / 384");
}

TEST_CASE("dropout keeps a byte an element and replays its random numbers") {
  CHECK(derived("dropout", {.probability = 0.1}, {kX}) ==
        "bf16 [2, 4, 8] | aux: out.mask bool [2, 4, 8] | saves: out.mask");
  CHECK(graph_of("dropout", {}, {kX}, true).ops[0].recompute == RecomputePolicy::kReplayRandom);
}

TEST_CASE("gated activations save gate and up, in one tensor or two") {
  const Given up{"up", {2, 4, 8}};
  for (const char* kind : {"swiglu", "geglu"}) {
    CAPTURE(kind);
    CHECK(derived(kind, {}, {kX, up}) == "bf16 [2, 4, 8] | saves: x up");
    CHECK(derived(kind, {}, {kX}) == "bf16 [2, 4, 4] | saves: x");
  }
}

TEST_CASE("parts of a tensor are views, and put together again they are a new one") {
  const Given narrow{"y", {2, 4, 4}};
  CHECK(derived("split", {.parts = 2}, {kX}) == "bf16 [2, 4, 4] view, bf16 [2, 4, 4] view");
  CHECK(derived("slice", {.parts = 4, .part = 3}, {kX}) == "bf16 [2, 4, 2] view");
  CHECK(derived("slice", {.part = 1, .widths = {3, 5}}, {kX}) == "bf16 [2, 4, 5] view");
  CHECK(derived("split", {.widths = {3, 5}}, {kX}) == "bf16 [2, 4, 3] view, bf16 [2, 4, 5] view");
  CHECK(derived("cat", {}, {kX, narrow}) == "bf16 [2, 4, 12] | aliases: x y");
  // Forward is free. Backward writes the whole gradient; split reads the parts' gradients too.
  CHECK(costs("split", {.parts = 2}, {kX}) == "flops 0 / 0, moved 0 / 256");
  CHECK(costs("slice", {.parts = 4, .part = 3}, {kX}) == "flops 0 / 0, moved 0 / 128");
}

TEST_CASE("ops refuse shapes that do not fit") {
  const Given k{"k", {2, 4, 3}};
  const Given odd{"x", {2, 4, 7}};
  const Given matrix{"x", {4, 8}};
  const Given scalar{"x", {}};
  CHECK(refusal("attention_scores", {.heads = 3}, {kX, k}) ==
        "op 'out': the width 8 of 'x' does not divide into 3 heads");
  CHECK(refusal("attention_scores", {.heads = 4}, {kX, k}) ==
        "op 'out': 'k' must be [2, 4, 8], found [2, 4, 3]");
  CHECK(refusal("attention_scores", {.heads = 4}, {matrix, k}) ==
        "op 'out': 'x' must be [batch, tokens, width], found [4, 8]");
  CHECK(refusal("attention_values", {.heads = 1}, {kX, k}) ==
        "op 'out': 'x' must be [2, 1, 4, 4], found [2, 4, 8]");
  CHECK(refusal("add", {}, {kX, k}) == "op 'out': [2, 4, 8] and [2, 4, 3] do not fit together");
  CHECK(refusal("swiglu", {}, {odd}) == "op 'out': its one input must hold gate and up, halves");
  CHECK(refusal("split", {.parts = 3}, {kX}) ==
        "op 'out': the width 8 of 'x' does not divide into 3 parts");
  CHECK(refusal("slice", {.parts = 2, .part = 2}, {kX}) == "op 'out': part 2 is not among 2 parts");
  CHECK(refusal("split", {}, {kX}) == "op 'out': needs 'parts' or 'widths'");
  CHECK(refusal("split", {.parts = 2, .widths = {4, 4}}, {kX}) ==
        "op 'out': takes 'parts' or 'widths', not both");
  CHECK(refusal("split", {.widths = {4, 5}}, {kX}) ==
        "op 'out': the widths [4, 5] do not fill the 8 of 'x'");
  CHECK(refusal("cross_entropy", {}, {kX, {"labels", {2}, DataType::kInt64, false}}) ==
        "op 'out': labels [2] do not match logits [2, 4, 8]");
  for (const char* kind : {"linear", "mean", "rms_norm", "repeat_kv"}) {
    CAPTURE(kind);
    CHECK(refusal(kind, {.width = 1, .heads = 1, .kv_heads = 1}, {scalar}) ==
          "op 'out': its input 'x' states no shape");
  }
}

TEST_CASE("sizes past 63 bits are refused by the op's or tensor's name") {
  const Given wide{"x", {1, 1, INT64_MAX / 2}};
  const Given second{"y", {1, 1, INT64_MAX / 2}};
  const Given third{"z", {1, 1, INT64_MAX / 2}};
  CHECK(refusal("gelu", {}, {{"x", {1, 2, INT64_MAX}}}) ==
        "tensor 'x': its number of elements: 2 x 9223372036854775807 does not fit in 63 bits");
  CHECK(refusal("gelu", {}, {{"x", {1, 1, INT64_MAX}}}) ==
        "tensor 'x': its bytes: 9223372036854775807 x 2 does not fit in 63 bits");
  CHECK(refusal("linear", {.width = 4}, {wide}) ==
        "tensor 'out.weight': its number of elements: 4 x 4611686018427387903 does not fit in 63 "
        "bits");
  CHECK(refusal("cat", {}, {wide, second, third}) ==
        "op 'out': its width: 9223372036854775806 + 4611686018427387903 does not fit in 63 bits");
}

}  // namespace cairn
