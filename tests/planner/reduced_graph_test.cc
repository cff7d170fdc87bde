#include "planner/reduced_graph.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "graph/graph_builder.h"
#include "models/load_model.h"
#include "planner/evaluation.h"
#include "sim/simulator.h"
#include "tests/seed.h"
#include "tests/sim/random_graph.h"

namespace cairn {
namespace {

Graph model_graph(const std::string& model, std::int64_t layers, const std::string& attention) {
  ModelRequest request{.model = model};
  if (layers > 0) {
    request.tokens = 64;
    request.set = {{"layers", std::to_string(layers)}};
  }
  if (!attention.empty()) request.implementations = {{"attention", attention}};
  return load_model(request).graph;
}

std::string kinds_text(const std::vector<Block>& blocks) {
  std::string text;
  for (const Block& block : blocks) text += fmt::format("{} ", block.kind);
  return text;
}

// What a block's steps did to memory: one entry for each run of its forward, recompute or backward
// steps, with bytes above what was live before the run.
using Runs = std::vector<std::string>;

std::vector<Runs> runs_of_blocks(const Graph& graph, const std::vector<Block>& blocks,
                                 const Evaluation& evaluation) {
  std::vector<std::size_t> block_of_op(graph.ops.size());
  for (std::size_t b = 0; b < blocks.size(); ++b) {
    for (std::int32_t i = blocks[b].begin; i < blocks[b].end; ++i) {
      block_of_op[static_cast<std::size_t>(i)] = b;
    }
  }
  std::vector<Runs> runs(blocks.size());
  std::size_t last_block = blocks.size();
  StepKind last_kind = StepKind::kFree;
  std::int64_t before_bytes = 0;  // the run
  std::int64_t live_bytes = evaluation.trace.resident_bytes;
  for (const StepTrace& traced : evaluation.trace.steps) {
    const Step& step = evaluation.schedule.steps[traced.step];
    if (step.kind == StepKind::kOptimizerStep) continue;
    const std::size_t block = block_of_op[index(step.op)];
    if (block != last_block || step.kind != last_kind) {
      runs[block].push_back(fmt::format("{}:", static_cast<int>(step.kind)));
      before_bytes = live_bytes;
    }
    const auto offset = static_cast<std::int32_t>(step.op) - blocks[block].begin;
    // Behind the last op of forward dies what names of any block hold until then.
    const bool ends_forward =
        step.kind == StepKind::kCompute && step.op == evaluation.plan.order.back();
    runs[block].back() += fmt::format(" {}:{}/{}", offset, traced.during_bytes - before_bytes,
                                      ends_forward ? 0 : traced.after_bytes - before_bytes);
    last_block = block;
    last_kind = step.kind;
    live_bytes = traced.after_bytes;
  }
  return runs;
}

void check_same_bytes(const Graph& graph, const std::vector<Block>& blocks,
                      const ReducedGraph& reduced) {
  for (const Extent extent : {Extent::kNeeded, Extent::kPrefix, Extent::kWhole}) {
    for (const Algorithm algorithm : {Algorithm::kNone, Algorithm::kEveryLayer}) {
      CAPTURE(extent_name(extent));
      CAPTURE(strategy_name({.algorithm = algorithm}));
      const Setting setting{.extent = extent};
      const std::vector<Runs> whole =
          runs_of_blocks(graph, blocks, evaluate(graph, {.algorithm = algorithm}, setting));
      const std::vector<Runs> less =
          runs_of_blocks(reduced.graph, reduced.blocks,
                         evaluate(reduced.graph, {.algorithm = algorithm}, setting));
      for (std::size_t b = 0; b < blocks.size(); ++b) {
        CAPTURE(b);
        CHECK(whole[b] == less[static_cast<std::size_t>(reduced.block_of[b])]);
      }
    }
  }
}

ReducedGraph check_reduction(const Graph& graph) {
  const std::vector<Block> blocks = chain_blocks(graph);
  ReducedGraph reduced = reduced_graph(graph, blocks);
  REQUIRE(reduced.block_of.size() == blocks.size());
  REQUIRE(reduced.whole_of.size() == reduced.blocks.size());
  for (std::size_t b = 0; b < blocks.size(); ++b) {
    CHECK(reduced.blocks[static_cast<std::size_t>(reduced.block_of[b])].kind == blocks[b].kind);
  }
  for (std::size_t b = 0; b < reduced.blocks.size(); ++b) {
    const auto whole = static_cast<std::size_t>(reduced.whole_of[b]);
    CHECK(reduced.block_of[whole] == static_cast<std::int32_t>(b));
  }
  // It is cut as it says, and each pair of neighbours of the whole is there.
  std::vector<Block> cut = chain_blocks(reduced.graph);
  REQUIRE(cut.size() == reduced.blocks.size());
  for (std::size_t b = 0; b < cut.size(); ++b) {
    cut[b].kind = reduced.blocks[b].kind;
    CHECK(cut[b] == reduced.blocks[b]);
  }
  for (std::size_t b = 1; b < blocks.size(); ++b) {
    bool is_there = false;
    for (std::size_t i = 1; i < reduced.blocks.size(); ++i) {
      is_there = is_there || (reduced.blocks[i - 1].kind == blocks[b - 1].kind &&
                              reduced.blocks[i].kind == blocks[b].kind);
    }
    CHECK(is_there);
  }
  check_same_bytes(graph, blocks, reduced);
  return reduced;
}

// Blocks of random ops, each block `repeats` times in a row; a block reads the output of the one
// before. Every third op's output is held until the end of the next block where `holds`.
Graph repeated_blocks(Random& random, bool holds) {
  GraphBuilder builder("repeated", DataType::kFloat32);
  TensorId x = builder.add_input_bytes("x", 8, true);
  const TensorId table = builder.add_input_bytes("table", 4, false);
  std::int32_t number = 0;
  std::vector<TensorId> held;
  for (int sort = 0; sort < 2; ++sort) {
    const std::size_t repeats = 1 + pick(random, 8);
    const Random same = random;
    for (std::size_t repeat = 0; repeat < repeats; ++repeat) {
      random = same;
      const TensorId input = x;
      const std::size_t op_count = 2 + pick(random, 3);
      std::vector<TensorId> now_held;
      for (std::size_t i = 0; i < op_count; ++i) {
        const std::string name = fmt::format("op{}", builder.op_count());
        CustomOp op{.name = name, .inputs = {x}, .block = number};
        if (i + 1 == op_count) op.inputs.push_back(input);
        if (one_in(random, 3)) op.inputs.push_back(table);
        op.outputs = {{.name = name, .bytes = 4 * static_cast<std::int64_t>(1 + pick(random, 3))}};
        if (one_in(random, 2)) op.saved.push_back(builder.tensor(x).name);
        if (one_in(random, 2)) op.saved.push_back(name);
        op.inputs.push_back(builder.add_parameter_bytes(name + ".w", 4, true));
        if (one_in(random, 2)) op.saved.push_back(name + ".w");
        if (one_in(random, 3)) op.workspace_bytes = 12;
        x = builder.add_custom(op)[0];
        if (holds && one_in(random, 3)) now_held.push_back(x);
      }
      for (const TensorId tensor : held) {
        builder.hold_until(tensor, static_cast<OpId>(builder.op_count() - 1));
      }
      held = now_held;
      ++number;
    }
  }
  const TensorId loss = builder.add_custom({.name = "loss",
                                            .inputs = {x},
                                            .outputs = {{.name = "loss", .bytes = 4}},
                                            .saved = {builder.tensor(x).name}})[0];
  return builder.build(loss);
}

}  // namespace

TEST_CASE("a llama of eight layers is one of four, and of 126 layers too") {
  const ReducedGraph eight = check_reduction(model_graph("llama-3.2-1b", 8, "sdpa"));
  CHECK(eight.graph.block_count == 4);
  CHECK(kinds_text(eight.blocks).starts_with("0 1 2 1 2 1 2 1 3 4 "));
  const ReducedGraph many = check_reduction(model_graph("llama-3.2-1b", 126, "sdpa"));
  CHECK(many.graph.ops.size() == eight.graph.ops.size());
}

TEST_CASE("the bytes of each block are those of the whole graph, on real models") {
  check_reduction(model_graph("llama-3.2-1b", 7, "eager"));
  check_reduction(model_graph("gpt2", 9, ""));
  check_reduction(model_graph("bert-base-uncased", 8, ""));
  check_reduction(model_graph("mixtral-8x7b-v0.1", 6, ""));
  check_reduction(model_graph("gemma-3-1b", 26, ""));
  check_reduction(model_graph("t5-small", 0, ""));
  check_reduction(model_graph("resnet-152", 0, ""));
  check_reduction(model_graph("densenet-121", 0, ""));
}

TEST_CASE("periods inside periods shorten too") {
  // Kinds: five layers with a window and one without, four times, and two at the end.
  const Graph graph = model_graph("gemma-3-1b", 26, "eager");
  const ReducedGraph reduced = reduced_graph(graph, chain_blocks(graph));
  CHECK(reduced.graph.block_count < 16);
}

TEST_CASE("autocast, whose casts of weights are held to the end of forward") {
  ModelRequest request{.model = "llama-3.2-1b", .tokens = 64};
  request.set = {{"layers", "8"}};
  request.precision =
      Precision{.parameter_type = DataType::kFloat32, .autocast_type = DataType::kBFloat16};
  const ReducedGraph reduced = check_reduction(load_model(request).graph);
  CHECK(reduced.graph.block_count == 4);
}

TEST_CASE("a graph without repeats is itself") {
  const Graph graph = model_graph("unet", 0, "");
  const ReducedGraph reduced = check_reduction(graph);
  CHECK(reduced.graph.ops.size() == graph.ops.size());
  CHECK(reduced.graph.tensors.size() == graph.tensors.size());
}

TEST_CASE("tensors are found at the same place in a block of the same kind") {
  const Graph graph = model_graph("llama-3.2-1b", 8, "sdpa");
  const std::vector<Block> blocks = chain_blocks(graph);
  const ReducedGraph reduced = reduced_graph(graph, blocks);
  for (std::size_t b = 0; b < blocks.size(); ++b) {
    const Block& like = reduced.blocks[static_cast<std::size_t>(reduced.block_of[b])];
    CHECK(same_place(graph, blocks[b], blocks[b].output, reduced.graph, like) == like.output);
  }
}

TEST_CASE("random blocks, repeated") {
  Random random(test_seed());
  INFO("--seed=", test_seed());
  std::size_t shorter_count = 0;
  for (int i = 0; i < 200; ++i) {
    CAPTURE(i);
    const Graph graph = repeated_blocks(random, i % 2 == 1);
    if (check_reduction(graph).graph.ops.size() < graph.ops.size()) ++shorter_count;
  }
  CHECK(shorter_count > 50);
}

TEST_CASE("random graphs stay as they are, or say the same") {
  Random random(test_seed());
  INFO("--seed=", test_seed());
  for (int i = 0; i < 200; ++i) {
    CAPTURE(i);
    check_reduction(random_graph(random));
  }
}

}  // namespace cairn
