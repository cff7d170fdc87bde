// What the op kinds of a mixture of experts, and of attention of other shapes, make, save and cost.

#include <doctest/doctest.h>

#include "graph/ops/expert_rows.h"
#include "tests/graph/op_text.h"

namespace cairn {
namespace {

// 2 samples of 4 tokens, 8 tokens in all; each takes 2 of 6 experts: 16 rows.
const Given kX{"x", {2, 4, 8}};
const Given kFrozenX{"x", {2, 4, 8}, DataType::kBFloat16, false};
const Given kScores{"scores", {2, 4, 6}, DataType::kFloat32};
const Given kIndices{"indices", {2, 4, 2}, DataType::kInt64, false};
const Given kRows{"rows", {16, 8}};
const Given kEnds{"ends", {6}, DataType::kInt32, false};
const Given kExpertOfRow{"expert", {16}, DataType::kInt64, false};

}  // namespace

TEST_CASE("topk saves where its values were, gather what it was given") {
  CHECK(derived("topk", {.largest_count = 2}, {kScores}) ==
        "fp32 [2, 4, 2], int64 [2, 4, 2] | saves: out.indices");
  // scores 8 * 6 * 4 = 192, values 8 * 2 * 4 = 64, indices 128: 384. Backward: the gradients of
  // scores and values 256, indices again 128.
  CHECK(costs("topk", {.largest_count = 2}, {kScores}) == "flops 0 / 0, moved 384 / 384");
  CHECK(refusal("topk", {.largest_count = 7}, {kScores}) ==
        "op 'out': the 7 largest of a last dim of 6");
  CHECK(derived("gather", {}, {kScores, kIndices}) == "fp32 [2, 4, 2] | saves: scores indices");
  CHECK(refusal("gather", {}, {kX, {"indices", {2, 3, 2}, DataType::kInt64, false}}) ==
        "op 'out': 'x' [2, 4, 8] and 'indices' [2, 3, 2] differ outside the last dim");
}

TEST_CASE("a masked fill saves its mask") {
  const Given mask{"mask", {2, 4, 6}, DataType::kBool, false};
  const Given by_row{"mask", {16, 1}, DataType::kBool, false};
  CHECK(derived("masked_fill", {}, {kScores, mask}) == "fp32 [2, 4, 6] | saves: mask");
  CHECK(derived("masked_fill", {}, {kRows, by_row}) == "bf16 [16, 8] | saves: mask");
  CHECK(refusal("masked_fill", {}, {kRows, mask}) ==
        "op 'out': a mask [2, 4, 6] does not fit [16, 8]");
  CHECK(derived("group_mask", {.groups = 3}, {kScores}) == "bool [2, 4, 6]");
  CHECK(refusal("group_mask", {.groups = 4}, {kScores}) ==
        "op 'out': the width 6 of 'scores' does not divide into 4 groups");
}

TEST_CASE("dispatch makes a row for each expert a token takes, and what finds the way back") {
  CHECK(derived("dispatch", {.experts = 6}, {kX, kIndices}) ==
        "bf16 [16, 8], int64 [16], bool [16, 1], int32 [6], int64 [16] | aux: out.token int64 [16]"
        " | saves: out.absent out.token");
  // Read: x 128 and indices 128. Made: rows 16 * 8 * 2 = 256, three of 16 * 8 = 128, flags 16, ends
  // 24: 680. Backward: gradients of x 128 and rows 256, flags 16, tokens 128, and the rows again.
  CHECK(costs("dispatch", {.experts = 6}, {kX, kIndices}) ==
        "flops 0 / 0, moved 936 / 528, workspace 0 / 256");
  CHECK(refusal("dispatch", {.experts = 1}, {kX, kIndices}) == "op 'out': 2 experts a token, of 1");
  CHECK(refusal("dispatch", {.experts = 6}, {kRows, kIndices}) ==
        "op 'out': 'rows' [16, 8] and 'indices' [2, 4, 2] differ outside the last dim");
}

TEST_CASE("imbalance and capacity change the rows that experts compute") {
  const auto rows = [](double imbalance, double capacity) {
    return expert_rows({.rows = 16, .experts = 6, .imbalance = imbalance, .capacity = capacity});
  };
  CHECK(rows(1.0, 0.0) == 16);
  CHECK(rows(1.5, 0.0) == 24);
  CHECK(rows(1.3, 0.0) == 21);  // 20.8
  CHECK(rows(3.0, 0.0) == 48);  // one rank, one expert of two ranks' six: all 3 * 16
  CHECK(rows(1.0, 1.0) == 18);  // ceil(16 / 6) = 3 rows for each of 6
  CHECK(rows(1.0, 1.5) == 24);  // ceil(4.0) = 4
  CHECK(rows(2.0, 1.5) == 24);  // padded: no rank has more
  CHECK(rows(1.0, 0.5) == 12);  // ceil(1.33) = 2: tokens are dropped
  const OpAttributes uneven{.experts = 6, .imbalance = 1.5};
  CHECK(derived("dispatch", uneven, {kX, kIndices}) ==
        "bf16 [24, 8], int64 [24], bool [24, 1], int32 [6], int64 [24] | aux: out.token int64 [24]"
        " | saves: out.absent out.token");
  CHECK(refusal("dispatch", {.experts = 6, .imbalance = 3.5}, {kX, kIndices}) ==
        "op 'out': imbalance 3.5 is not from 1 to 3 (6 experts, 2 a token)");
  CHECK(refusal("dispatch", {.experts = 6, .capacity = 3.5}, {kX, kIndices}) ==
        "op 'out': capacity 3.5 is above 3 (6 experts, 2 a token)");
}

TEST_CASE("all experts of a layer are one weight, and FLOPs follow the rows") {
  const OpAttributes plain{.width = 5, .experts = 6};
  CHECK(derived("expert_linear", plain, {kRows, kEnds}) ==
        "bf16 [16, 5] | saves: rows ends out.weight");
  CHECK(derived("expert_linear", plain, {kRows, kEnds}, false) ==
        "bf16 [16, 5] | saves: ends out.weight");
  // 2 * 16 rows * 8 in * 5 out = 1280, twice in backward. Read: rows 256, ends 24, weight 6 * 5 *
  // 8 * 2 = 480; made 16 * 5 * 2 = 160: 920. Backward: gradients of rows, weight and output 896,
  // rows, ends and weight again 760.
  CHECK(costs("expert_linear", plain, {kRows, kEnds}) == "flops 1280 / 2560, moved 920 / 1656");
  const OpAttributes biased{.width = 5, .bias = true, .experts = 6};
  CHECK(derived("expert_linear", biased, {kRows, kEnds, kExpertOfRow}) ==
        "bf16 [16, 5] | saves: rows ends expert out.weight");
  // The bias of each row is copied first: 16 * 5 * 2.
  CHECK(
      costs("expert_linear", biased, {kRows, kEnds, kExpertOfRow}).ends_with("workspace 160 / 0"));
  CHECK(refusal("expert_linear", biased, {kRows, kEnds}) ==
        "op 'out': with a bias it needs the expert of each row as its third input");
  CHECK(refusal("expert_linear", plain, {kX, kEnds}) ==
        "op 'out': 'x' must be [rows, width], found [2, 4, 8]");
}

TEST_CASE("take and combine save the order they go by") {
  const Given weights{"weights", {2, 4, 2}};
  const Given order{"order", {16}, DataType::kInt64, false};
  CHECK(derived("take", {}, {weights, order}) == "bf16 [16, 1] | saves: order");
  CHECK(derived("combine", {}, {kRows, kIndices}) ==
        "bf16 [2, 4, 8] | aux: out.inverse int64 [16] | saves: out.inverse");
  // Both directions copy 16 rows of 8 bf16: 256.
  CHECK(costs("combine", {}, {kRows, kIndices}).ends_with("workspace 256 / 256"));
}

TEST_CASE("a linear of another type keeps the cast of its weight, an op before it") {
  const Given x32{"x", {2, 4, 8}, DataType::kFloat32};
  const OpAttributes fp32{.width = 6, .data_type = DataType::kFloat32};
  CHECK(derived("linear", fp32, {x32}) == "fp32 [2, 4, 6] | saves: x out.weight.fp32");
  const Graph graph = graph_of("linear", fp32, {x32}, true);
  CHECK(derived_text(graph, graph.ops[0]) == "fp32 [6, 8]");
  CHECK(graph.tensor(graph.ops[0].inputs[0]).name == "out.weight");
  CHECK(graph.tensor(graph.ops[0].outputs[0]).held_until == kNoOp);
  CHECK(refusal("linear", fp32, {kX}) == "op 'out': its dtype is fp32, its input is bf16");
  CHECK(derived("linear", {.width = 6, .data_type = DataType::kBFloat16}, {kX}) ==
        "bf16 [2, 4, 6] | saves: x out.weight");
}

TEST_CASE("values may have heads of another width than keys") {
  // 2 heads of 4 for q and k, of 3 for v.
  const Given k{"k", {2, 4, 8}};
  const Given v{"v", {2, 4, 6}};
  CHECK(derived("attention", {.heads = 2}, {kX, k, v}) ==
        "bf16 [2, 4, 6] | aux: out.logsumexp fp32 [2, 2, 32] | saves: x k v out out.logsumexp");
  // 2 * batch 2 * heads 2 * 4 * 4 = 128 FLOPs an element of a head: 4 + 3 forward, 3 * 4 + 2 * 3
  // backward.
  CHECK(costs("attention", {.heads = 2}, {kX, k, v}).starts_with("flops 896 / 2304"));
  CHECK(derived("attention", {.heads = 2, .sinks = true}, {kX, k, {"v", {2, 4, 8}}}) ==
        "bf16 [2, 4, 8] | aux: out.logsumexp fp32 [2, 2, 4] | "
        "saves: x k v out.sinks out out.logsumexp");
  CHECK(refusal("attention", {.heads = 2}, {kX, k, {"v", {2, 4, 7}}}) ==
        "op 'out': 'v' must be [batch, tokens, width] of 2 heads, found [2, 4, 7]");
}

TEST_CASE("sinks are a column more, and a view without it") {
  const Given scores{"scores", {2, 3, 4, 4}};
  const Given with_sinks{"with_sinks", {2, 3, 4, 5}};
  CHECK(derived("append_sinks", {}, {scores}) == "bf16 [2, 3, 4, 5] | aliases: scores");
  CHECK(derived("drop_sinks", {}, {with_sinks}) == "bf16 [2, 3, 4, 4] view");
  CHECK(refusal("append_sinks", {}, {kX}) ==
        "op 'out': 'x' must be [batch, heads, tokens, tokens], found [2, 4, 8]");
}

TEST_CASE("keys of each head and of all heads are put together anew") {
  const Given shared{"shared", {2, 4, 3}};
  // 2 heads of 4 + 3.
  CHECK(derived("join_heads", {.heads = 2}, {kX, shared}) == "bf16 [2, 4, 14]");
  CHECK(costs("join_heads", {.heads = 2}, {kX, shared}).ends_with("workspace 0 / 224"));
  CHECK(refusal("join_heads", {.heads = 3}, {kX, shared}) ==
        "op 'out': the width 8 of 'x' does not divide into 3 heads");
}

TEST_CASE("sub and div: which gradients are new, and what is saved") {
  const Given y{"y", {2, 4, 8}};
  const Given row{"y", {2, 4, 1}};
  CHECK(derived("sub", {}, {kX, y}) == "bf16 [2, 4, 8] | aliases: x");
  CHECK(derived("sub", {}, {kX, row}) == "bf16 [2, 4, 8] | aliases: x");
  CHECK(costs("sub", {}, {kX, row}).ends_with("workspace 0 / 128"));  // summed over 8 columns
  CHECK(derived("div", {}, {kX, row}) == "bf16 [2, 4, 8] | saves: x y");
  CHECK(derived("div", {}, {kFrozenX, row}) == "bf16 [2, 4, 8] | saves: x y");
  CHECK(derived("div", {}, {kX, {"y", {2, 4, 1}, DataType::kBFloat16, false}}) ==
        "bf16 [2, 4, 8] | saves: y");
  // bf16 by fp32: both gradients are first made in fp32 at the output's size, 2 * 8 * 8 * 4.
  CHECK(
      costs("mul", {}, {kX, {"y", {2, 4, 1}, DataType::kFloat32}}).ends_with("workspace 0 / 512"));
}

TEST_CASE("sigmoid saves its output, clamp its input, sum nothing") {
  CHECK(derived("sigmoid", {}, {kX}) == "bf16 [2, 4, 8] | saves: out");
  CHECK(derived("clamp", {}, {kX}) == "bf16 [2, 4, 8] | saves: x");
  CHECK(derived("sum", {}, {kX}) == "bf16 [2, 4, 1]");
}

}  // namespace cairn
