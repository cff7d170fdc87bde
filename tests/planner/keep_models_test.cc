// Keep frontiers of real models: what the field keeps by hand, and the numbers of the whole graph.

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "graph/error.h"
#include "models/load_model.h"
#include "planner/blocks.h"
#include "planner/keep_frontier.h"
#include "planner/reduced_graph.h"
#include "tests/planner/keep_oracle.h"

namespace cairn {
namespace {

using test::check_numbers;
using test::is_as_good;
using test::set_text;

// ----------------------------------------------------------------------------------

// A GPU with rates near an H100's, so that every op has a time.
DeviceSpec fast_gpu() {
  return {.has_rates = true,
          .matmul_16bit_flops = 6e14,
          .matmul_fp32_flops = 5e13,
          .bandwidth_bytes = 3e12,
          .launch_ns = 2000};
}

struct Reduced {
  Graph whole = {};
  std::vector<Block> blocks = {};
  ReducedGraph reduced = {};
};

Reduced reduced_model(const std::string& model, std::int64_t layers, const std::string& attention) {
  ModelRequest request{.model = model, .tokens = 512};
  request.set = {{"layers", std::to_string(layers)}};
  if (!attention.empty()) request.implementations = {{"attention", attention}};
  Reduced made{.whole = load_model(request).graph};
  made.blocks = chain_blocks(made.whole);
  made.reduced = reduced_graph(made.whole, made.blocks);
  return made;
}

// Of the attention half (block 1) or the MLP half (block 2) of the first llama layer, or both.
KeepFrontier llama_frontier(const Reduced& model, Extent extent, std::size_t first,
                            std::size_t last) {
  static const DeviceSpec kGpu = fast_gpu();
  const ReducedGraph& of = model.reduced;
  const Setting setting{.extent = extent, .device = &kGpu};
  return keep_frontier(of.graph, {of.blocks[first].begin, of.blocks[last].end}, setting,
                       op_costs(of.graph, &kGpu));
}

bool keeps(const Graph& graph, const KeepSet& set, const std::string& suffix) {
  return std::any_of(set.keep.begin(), set.keep.end(),
                     [&](TensorId id) { return graph.tensor(id).name.ends_with(suffix); });
}

}  // namespace

TEST_CASE("eager attention: scores go first, products last") {
  const Reduced model = reduced_model("llama-3.2-1b", 4, "eager");
  const Graph& graph = model.reduced.graph;
  for (const Extent extent : {Extent::kNeeded, Extent::kPrefix}) {
    CAPTURE(extent_name(extent));
    const KeepFrontier frontier = llama_frontier(model, extent, 1, 1);
    CHECK(frontier.is_exact);
    CHECK(frontier.sets.front().keep.empty());
    // Scores are of 16 MiB, and what any other op makes of at most 4 MiB. All products but the
    // scores are kept before a tensor of their size is.
    const KeepSet* affordable = nullptr;
    for (const KeepSet& set : frontier.sets) {
      if (set.held_bytes > (std::int64_t{15} << 20)) continue;
      CHECK_FALSE(keeps(graph, set, ".scores"));
      CHECK_FALSE(keeps(graph, set, ".softmax"));
      CHECK_FALSE(keeps(graph, set, ".probabilities"));
      if (affordable == nullptr || set.recompute_cost < affordable->recompute_cost) {
        affordable = &set;
      }
    }
    REQUIRE(affordable != nullptr);
    // As they are, or as attention reads them.
    const auto keeps_one_of = [&](const std::vector<std::string>& names) {
      return std::any_of(names.begin(), names.end(),
                         [&](const std::string& name) { return keeps(graph, *affordable, name); });
    };
    INFO(set_text(graph, *affordable));
    CHECK(keeps_one_of({".attn.v", ".v_repeated"}));
    CHECK(keeps_one_of({".attn.k", ".k_rot", ".k_repeated"}));
    CHECK(keeps_one_of({".attn.q", ".q_rot", ".q_rows"}));
    CHECK(keeps_one_of({".values", ".attend"}));
  }
}

TEST_CASE("flash attention's output and logsumexp stay together") {
  for (const char* const attention : {"sdpa", "flash"}) {
    const Reduced model = reduced_model("llama-3.2-1b", 4, attention);
    const Graph& graph = model.reduced.graph;
    for (const Extent extent : {Extent::kNeeded, Extent::kPrefix}) {
      std::size_t kept_count = 0;
      const KeepFrontier frontier = llama_frontier(model, extent, 1, 1);
      CHECK(frontier.is_exact);
      for (const KeepSet& set : frontier.sets) {
        CHECK(keeps(graph, set, ".attend") == keeps(graph, set, ".logsumexp"));
        if (keeps(graph, set, ".attend")) ++kept_count;
      }
      CHECK(kept_count > 0);
      CHECK(kept_count < frontier.sets.size());
    }
  }
}

TEST_CASE("a gated MLP keeps its products before what is cheap to make again") {
  const Reduced model = reduced_model("llama-3.2-1b", 4, "sdpa");
  const Graph& graph = model.reduced.graph;
  const KeepFrontier frontier = llama_frontier(model, Extent::kPrefix, 2, 2);
  CHECK(frontier.is_exact);
  for (const KeepSet& set : frontier.sets) {
    if (!keeps(graph, set, ".silu") && !keeps(graph, set, ".gated")) continue;
    CHECK_MESSAGE(keeps(graph, set, ".mlp.up"), set_text(graph, set));
    CHECK_MESSAGE(keeps(graph, set, ".mlp.gate"), set_text(graph, set));
  }
}

TEST_CASE("the numbers of a reduced graph's frontier are those of the whole graph") {
  static const DeviceSpec kGpu = fast_gpu();
  for (const char* const attention : {"sdpa", "eager"}) {
    const Reduced model = reduced_model("llama-3.2-1b", 7, attention);
    const OpCosts costs = op_costs(model.whole, &kGpu);
    for (const Extent extent : {Extent::kNeeded, Extent::kPrefix, Extent::kWhole}) {
      CAPTURE(extent_name(extent));
      const Setting setting{.extent = extent, .device = &kGpu};
      const std::size_t block = 9;  // the attention half of the fifth layer
      const auto like = static_cast<std::size_t>(model.reduced.block_of[block]);
      const Block& reduced_block = model.reduced.blocks[like];
      const KeepFrontier frontier = llama_frontier(model, extent, like, like);
      const std::size_t step = 1 + frontier.sets.size() / 20;
      for (std::size_t i = 0; i < frontier.sets.size(); i += step) {
        KeepSet set = frontier.sets[i];
        for (TensorId& kept : set.keep) {
          kept = same_place(model.reduced.graph, reduced_block, kept, model.whole,
                            model.blocks[block]);
        }
        check_numbers(model.whole, {model.blocks[block].begin, model.blocks[block].end}, setting,
                      costs, set);
      }
    }
  }
}

TEST_CASE("the numbers of a whole layer are the simulator's") {
  static const DeviceSpec kGpu = fast_gpu();
  const Reduced model = reduced_model("llama-3.2-1b", 4, "sdpa");
  const ReducedGraph& of = model.reduced;
  for (const Extent extent : {Extent::kNeeded, Extent::kPrefix}) {
    const KeepFrontier frontier = llama_frontier(model, extent, 1, 2);
    const Setting setting{.extent = extent, .device = &kGpu};
    CHECK(frontier.sets.size() > 50);
    for (std::size_t i = 0; i < frontier.sets.size(); i += 1 + frontier.sets.size() / 40) {
      check_numbers(of.graph, {of.blocks[1].begin, of.blocks[2].end}, setting,
                    op_costs(of.graph, &kGpu), frontier.sets[i]);
    }
  }
}

TEST_CASE("with fewer labels the sets are right, and none is better than exact ones") {
  static const DeviceSpec kGpu = fast_gpu();
  const Reduced model = reduced_model("llama-3.2-1b", 4, "sdpa");
  const ReducedGraph& of = model.reduced;
  const Setting setting{.extent = Extent::kPrefix, .device = &kGpu};
  const OpCosts costs = op_costs(of.graph, &kGpu);
  const Span span{.begin = of.blocks[1].begin, .end = of.blocks[1].end};
  const KeepFrontier exact = keep_frontier(of.graph, span, setting, costs);
  const KeepFrontier less = keep_frontier(of.graph, span, setting, costs, {}, 64);
  CHECK(exact.is_exact);
  CHECK_FALSE(less.is_exact);
  for (const KeepSet& set : less.sets) {
    check_numbers(of.graph, span, setting, costs, set);
    CHECK(std::any_of(exact.sets.begin(), exact.sets.end(),
                      [&](const KeepSet& other) { return is_as_good(other, set); }));
  }
}

TEST_CASE("constraints hold in every list") {
  static const DeviceSpec kGpu = fast_gpu();
  const Reduced model = reduced_model("llama-3.2-1b", 4, "sdpa");
  const ReducedGraph& of = model.reduced;
  const OpCosts costs = op_costs(of.graph, &kGpu);
  const Span span{.begin = of.blocks[2].begin, .end = of.blocks[2].end};
  const auto named = [&](const std::string& suffix) {
    for (std::int32_t i = span.begin; i < span.end; ++i) {
      const TensorId id = of.graph.ops[static_cast<std::size_t>(i)].outputs[0];
      if (of.graph.tensor(id).name.ends_with(suffix)) return id;
    }
    return kNoTensor;
  };
  for (const Extent extent : {Extent::kNeeded, Extent::kPrefix}) {
    CAPTURE(extent_name(extent));
    const Setting setting{.extent = extent, .device = &kGpu};
    const KeepFrontier frontier = keep_frontier(
        of.graph, span, setting, costs, {.keep = {named(".silu")}, .recompute = {named(".up")}});
    CHECK(frontier.is_exact);
    CHECK(frontier.sets.size() > 1);
    for (const KeepSet& set : frontier.sets) {
      CHECK(keeps(of.graph, set, ".silu"));
      CHECK_FALSE(keeps(of.graph, set, ".mlp.up"));
      check_numbers(of.graph, span, setting, costs, set);
    }
  }
  CHECK_THROWS_WITH_AS(
      keep_frontier(of.graph, span, {.extent = Extent::kNeeded, .device = &kGpu}, costs,
                    {.keep = {named(".gate")}, .recompute = {named(".gate")}}),
      "'layers.0.mlp.gate' cannot be both kept and recomputed", InputError);
}

}  // namespace cairn
