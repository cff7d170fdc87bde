#include "planner/keep_frontier.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "graph/error.h"
#include "graph/graph_builder.h"
#include "graph/plan.h"
#include "graph/schedule.h"
#include "models/load_model.h"
#include "planner/blocks.h"
#include "planner/reduced_graph.h"
#include "tests/seed.h"
#include "tests/sim/random_graph.h"

namespace cairn {
namespace {

// --- An oracle: every keep list, lowered and simulated
// --------------------------------------------

struct Outcome {
  KeepSet set = {};
  std::vector<OpId> recomputed = {};
};

bool is_made_in(const Graph& graph, const Span& span, TensorId id) {
  const auto position = static_cast<std::int32_t>(graph.tensor(id).producer);
  return span.begin <= position && position < span.end;
}

// Handed to the span, and held for it: with a gradient, or by no Backward before the span.
bool is_handed(const Graph& graph, const Span& span, TensorId id) {
  const Tensor& tensor = graph.tensor(id);
  if (tensor.producer == kNoOp || static_cast<std::int32_t>(tensor.producer) >= span.begin) {
    return false;
  }
  bool is_read = false;
  for (std::int32_t i = span.begin; i < span.end; ++i) {
    const std::vector<TensorId>& inputs = graph.ops[static_cast<std::size_t>(i)].inputs;
    is_read = is_read || std::find(inputs.begin(), inputs.end(), id) != inputs.end();
  }
  if (!is_read || tensor.has_gradient) return is_read;
  for (std::int32_t i = 0; i < span.begin; ++i) {
    const Op& op = graph.ops[static_cast<std::size_t>(i)];
    for (const TensorId saved : op.saved) {
      if (op.has_backward && graph.tensor(saved).storage == tensor.storage) return false;
    }
  }
  return true;
}

// Bytes whose copy from forward is still there where the backward pass of the span begins.
std::int64_t held_bytes_of(const Graph& graph, const Span& span, const Schedule& schedule) {
  std::set<StorageId> held;
  std::set<TensorId> live;
  std::set<TensorId> read_again;  // by the recompute or a Backward of the span
  for (std::int32_t i = span.begin; i < span.end; ++i) {
    const Op& op = graph.ops[static_cast<std::size_t>(i)];
    if (op.has_backward) read_again.insert(op.saved.begin(), op.saved.end());
  }
  for (const Step& step : schedule.steps) {
    if (step.kind != StepKind::kRecompute) continue;
    read_again.insert(graph.op(step.op).inputs.begin(), graph.op(step.op).inputs.end());
  }
  std::set<StorageId> handed;
  for (std::size_t i = 0; i < graph.tensors.size(); ++i) {
    const auto id = static_cast<TensorId>(i);
    if (is_handed(graph, span, id)) handed.insert(graph.tensor(id).storage);
  }
  bool is_in_backward = false;
  for (const Step& step : schedule.steps) {
    if (step.kind == StepKind::kCompute) {
      const Op& op = graph.op(step.op);
      for (const auto* const made : {&op.outputs, &op.auxiliaries}) {
        live.insert(made->begin(), made->end());
      }
    }
    const bool is_of_span = step.op != kNoOp && span.begin <= static_cast<std::int32_t>(step.op) &&
                            static_cast<std::int32_t>(step.op) < span.end;
    if (is_of_span && step.kind != StepKind::kCompute && !is_in_backward) {
      is_in_backward = true;
      for (const TensorId id : live) {
        const Storage& storage = graph.storage(graph.tensor(id).storage);
        if (is_resident(graph.tensor(storage.owner))) continue;
        const bool is_read = is_made_in(graph, span, id) && read_again.contains(id);
        if (is_read || handed.contains(graph.tensor(id).storage)) {
          held.insert(graph.tensor(id).storage);
        }
      }
    }
    if (step.kind == StepKind::kFree) live.erase(step.tensor);
  }
  std::int64_t bytes = 0;
  for (const StorageId id : held) bytes += graph.storage(id).bytes;
  return bytes;
}

std::optional<Outcome> outcome_of(const Graph& graph, const Span& span, const Setting& setting,
                                  const OpCosts& costs, const std::vector<TensorId>& keep) {
  Plan plan = keep_all_plan(graph);
  plan.extent = setting.extent;
  plan.regions = {{.begin = span.begin, .end = span.end, .keep = keep}};
  Outcome outcome{.set = {.keep = keep}};
  try {
    outcome.set.held_bytes = held_bytes_of(graph, span, lower(graph, plan));
  } catch (const InputError&) {
    return std::nullopt;
  }
  const SpanProfile profile = span_profile(graph, span, keep, setting);
  outcome.recomputed = profile.recomputed;
  for (const OpId op : profile.recomputed) outcome.set.recompute_cost += costs.forward[index(op)];
  outcome.set.forward_peak_bytes = profile.forward_peak_bytes;
  outcome.set.backward_peak_bytes = profile.backward_peak_bytes;
  return outcome;
}

// What keep_frontier.h claims to look at.
bool is_claimed(const Graph& graph, const Outcome& outcome) {
  for (const TensorId id : outcome.set.keep) {
    const Tensor& tensor = graph.tensor(id);
    const OpId owner = graph.tensor(graph.storage(tensor.storage).owner).producer;
    for (const OpId op : outcome.recomputed) {
      if (op == tensor.producer || op == owner) return false;
    }
    for (const Op& op : graph.ops) {
      if (op.in_place && graph.tensor(op.inputs[0]).storage == tensor.storage &&
          graph.tensor(op.outputs[0]).producer > tensor.producer) {
        return false;
      }
    }
  }
  return true;
}

bool is_as_good(const KeepSet& a, const KeepSet& b) {
  return a.held_bytes <= b.held_bytes && a.recompute_cost <= b.recompute_cost &&
         a.backward_peak_bytes <= b.backward_peak_bytes;
}

std::string set_text(const Graph& graph, const KeepSet& set) {
  std::string text =
      fmt::format("held {} cost {} forward {} backward {} keep", set.held_bytes, set.recompute_cost,
                  set.forward_peak_bytes, set.backward_peak_bytes);
  for (const TensorId id : set.keep) text += " " + graph.tensor(id).name;
  return text;
}

// One line an op, for a failure.
std::string graph_text(const Graph& graph) {
  std::string text;
  for (std::size_t i = 0; i < graph.ops.size(); ++i) {
    const Op& op = graph.ops[i];
    const auto list = [&](const char* title, const std::vector<TensorId>& ids) {
      if (!ids.empty()) text += fmt::format("  {}", title);
      for (const TensorId id : ids) {
        const Tensor& tensor = graph.tensor(id);
        text += fmt::format(" {}:{}", tensor.name, tensor.bytes);
        if (is_view(graph, id)) {
          text += fmt::format("@{}", graph.tensor(graph.storage(tensor.storage).owner).name);
        }
        if (tensor.held_until != kNoOp) text += fmt::format("^{}", index(tensor.held_until));
      }
    };
    text += fmt::format("\n{} {}{}{}{} workspace {}", i, op.name,
                        op.recompute == RecomputePolicy::kNever ? " never" : "",
                        op.has_backward ? "" : " no-backward",
                        op.saves_after_forward ? " saves-after" : "", op.workspace_bytes);
    if (op.sweep_workspace_bytes) text += fmt::format("/{}", *op.sweep_workspace_bytes);
    list("reads", op.inputs);
    list("makes", op.outputs);
    list("and", op.auxiliaries);
    list("saves", op.saved);
  }
  return text;
}

struct Tally {
  std::int64_t frontiers = 0;
  std::int64_t exact = 0;
  std::int64_t sets = 0;
  std::int64_t lists = 0;    // of the oracle, claimed
  std::int64_t outside = 0;  // unclaimed lists that beat the frontier
  std::int64_t simulations = 0;
};

void check_numbers(const Graph& graph, const Span& span, const Setting& setting,
                   const OpCosts& costs, const KeepSet& set) {
  const std::optional<Outcome> outcome = outcome_of(graph, span, setting, costs, set.keep);
  REQUIRE_MESSAGE(outcome, set_text(graph, set));
  CHECK_MESSAGE(set_text(graph, outcome->set) == set_text(graph, set), graph_text(graph));
}

void check_frontier(const Graph& graph, const Span& span, const Setting& setting, Tally& tally) {
  const OpCosts costs = op_costs(graph, setting.device);
  const KeepFrontier frontier = keep_frontier(graph, span, setting, costs);
  REQUIRE(!frontier.sets.empty());
  ++tally.frontiers;
  tally.sets += static_cast<std::int64_t>(frontier.sets.size());
  tally.simulations += frontier.simulation_count;
  for (const KeepSet& set : frontier.sets) check_numbers(graph, span, setting, costs, set);
  for (const KeepSet& a : frontier.sets) {
    for (const KeepSet& b : frontier.sets) CHECK((&a == &b || !is_as_good(a, b)));
  }
  if (!frontier.is_exact) return;
  ++tally.exact;
  std::vector<TensorId> made;
  for (std::int32_t i = span.begin; i < span.end; ++i) {
    const Op& op = graph.ops[static_cast<std::size_t>(i)];
    made.insert(made.end(), op.outputs.begin(), op.outputs.end());
    made.insert(made.end(), op.auxiliaries.begin(), op.auxiliaries.end());
  }
  std::sort(made.begin(), made.end());
  if (made.size() > 10) return;
  for (std::size_t bits = 0; bits < (std::size_t{1} << made.size()); ++bits) {
    std::vector<TensorId> keep;
    for (std::size_t i = 0; i < made.size(); ++i) {
      if ((bits >> i & 1) != 0) keep.push_back(made[i]);
    }
    const std::optional<Outcome> outcome = outcome_of(graph, span, setting, costs, keep);
    if (!outcome) continue;
    const bool is_met =
        std::any_of(frontier.sets.begin(), frontier.sets.end(),
                    [&](const KeepSet& set) { return is_as_good(set, outcome->set); });
    if (!is_claimed(graph, *outcome)) {
      tally.outside += is_met ? 0 : 1;
      continue;
    }
    ++tally.lists;
    CHECK_MESSAGE(is_met, fmt::format("{}{}", set_text(graph, outcome->set), graph_text(graph)));
  }
}

// --- Random chains
// --------------------------------------------------------------------------------

std::int64_t some_bytes(Random& random) { return static_cast<std::int64_t>(pick(random, 8)) * 4; }

// A block of random ops: it reads x, and its last op reads all that nothing has read.
class ChainMaker {
 public:
  explicit ChainMaker(Random& random) : random_(random) {}

  Graph make() {
    TensorId x = builder_.add_input_bytes("x", 4, true);
    const TensorId ids = builder_.add_input_bytes("ids", 4, false);
    x = add({.name = "embed", .inputs = {x}}, some_bytes(random_), false);
    table_ = add({.name = "table", .inputs = {ids}}, some_bytes(random_), false);
    for (int block = 0; block < 3; ++block) x = add_block(x);
    return builder_.build(add({.name = "loss", .inputs = {x}}, 4, true));
  }

 private:
  TensorId add(CustomOp op, std::int64_t bytes, bool saves_input) {
    op.outputs = {{.name = op.name, .bytes = bytes}};
    if (saves_input) op.saved = {builder_.tensor(op.inputs[0]).name};
    return builder_.add_custom(op)[0];
  }

  TensorId add_block(TensorId x) {
    std::vector<TensorId> unread = {x};
    std::vector<TensorId> values = {x};
    const std::size_t op_count = 2 + pick(random_, 4);
    for (std::size_t i = 0; i <= op_count; ++i) {
      const bool is_last = i == op_count;
      CustomOp op{.name = fmt::format("op{}", builder_.op_count())};
      if (is_last) {
        op.inputs = unread;
      } else {
        op.inputs = {
            values[values.size() - 1 - pick(random_, std::min<std::size_t>(2, values.size()))]};
        if (one_in(random_, 3)) op.inputs.push_back(values[pick(random_, values.size())]);
        std::sort(op.inputs.begin(), op.inputs.end());
        op.inputs.erase(std::unique(op.inputs.begin(), op.inputs.end()), op.inputs.end());
      }
      decorate(op, is_last);
      std::erase_if(unread, [&](TensorId id) {
        return std::find(op.inputs.begin(), op.inputs.end(), id) != op.inputs.end();
      });
      const std::vector<TensorId> outputs = builder_.add_custom(op);
      values.insert(values.end(), outputs.begin(), outputs.end());
      unread.insert(unread.end(), outputs.begin(), outputs.end());
    }
    hold_some(values);
    return values.back();
  }

  // What it makes, saves and works with.
  void decorate(CustomOp& op, bool is_last) {
    if (!is_last && one_in(random_, 4)) op.inputs.push_back(table_);
    const std::size_t output_count = !is_last && one_in(random_, 5) ? 2 : 1;
    const bool is_view = one_in(random_, 5);
    for (std::size_t i = 0; i < output_count; ++i) {
      CustomTensor made{.name = fmt::format("{}.{}", op.name, i), .bytes = some_bytes(random_)};
      if (is_view) {
        made.view_of = op.inputs[0];
        made.bytes = builder_.tensor(op.inputs[0]).bytes;
      }
      op.outputs.push_back(made);
    }
    if (one_in(random_, 4)) {
      op.auxiliaries.push_back({.name = op.name + ".aux", .bytes = 4 + some_bytes(random_)});
      op.saved.push_back(op.name + ".aux");
    }
    for (const TensorId input : op.inputs) {
      if (one_in(random_, 2)) op.saved.push_back(builder_.tensor(input).name);
    }
    for (const CustomTensor& output : op.outputs) {
      if (one_in(random_, 4)) op.saved.push_back(output.name);
    }
    if (one_in(random_, 3)) op.workspace_bytes = some_bytes(random_) * 2;
    if (one_in(random_, 3)) op.backward_workspace_bytes = some_bytes(random_);
    if (one_in(random_, 6)) op.sweep_workspace_bytes = some_bytes(random_);
    if (one_in(random_, 4)) op.gradient_aliases.push_back(builder_.tensor(op.inputs[0]).name);
    if (builder_.tensor(op.inputs[0]).bytes != op.outputs[0].bytes) op.gradient_aliases.clear();
    op.saves_after_forward = one_in(random_, 5);
    if (one_in(random_, 12)) op.recompute = RecomputePolicy::kNever;
    op.forward.time_ns = static_cast<std::int64_t>(pick(random_, 6));
    op.backward.time_ns = 1;
    op.inputs.push_back(builder_.add_parameter_bytes(op.name + ".w", some_bytes(random_), true));
  }

  void hold_some(const std::vector<TensorId>& values) {
    for (const TensorId value : values) {
      const OpId producer = builder_.tensor(value).producer;
      if (producer == kNoOp || !one_in(random_, 3)) continue;
      const std::size_t first = index(producer);
      const std::size_t last = first + pick(random_, builder_.op_count() - first);
      builder_.hold_until(value, static_cast<OpId>(last));
    }
  }

  Random& random_;
  GraphBuilder builder_{"chain", DataType::kFloat32};
  TensorId table_ = kNoTensor;
};

Setting random_setting(Random& random, Extent extent) {
  Setting setting{.extent = extent};
  if (one_in(random, 3)) setting.step = random_training_step(random);
  return setting;
}

void check_spans(const Graph& graph, Random& random, Tally& tally) {
  const std::vector<Block> blocks = chain_blocks(graph);
  for (const Extent extent : {Extent::kNeeded, Extent::kPrefix, Extent::kWhole}) {
    CAPTURE(extent_name(extent));
    const Setting setting = random_setting(random, extent);
    for (std::size_t first = 0; first + 1 < blocks.size(); ++first) {
      const std::size_t last = std::min(first + pick(random, 2), blocks.size() - 2);
      const Span span{.begin = blocks[first].begin, .end = blocks[last].end};
      CAPTURE(span.begin);
      CAPTURE(span.end);
      check_frontier(graph, span, setting, tally);
    }
  }
}

// --- Real models
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

TEST_CASE("no keep list of a random chain is better than its frontier") {
  Random random(test_seed());
  INFO("--seed=", test_seed());
  Tally tally;
  for (int i = 0; i < 50; ++i) {
    CAPTURE(i);
    check_spans(ChainMaker(random).make(), random, tally);
  }
  MESSAGE(tally.frontiers << " frontiers, " << tally.exact << " exact, " << tally.sets << " sets, "
                          << tally.lists << " lists, " << tally.outside
                          << " unclaimed ones better, " << tally.simulations << " simulations");
  CHECK(tally.exact * 10 > tally.frontiers * 9);
}

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
