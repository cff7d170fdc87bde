#include "planner/keep_frontier.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "graph/graph_builder.h"
#include "planner/blocks.h"
#include "tests/planner/keep_oracle.h"
#include "tests/seed.h"
#include "tests/sim/random_graph.h"

// Random chains, small enough to try every keep list.

namespace cairn {
namespace {

struct Tally {
  std::int64_t frontiers = 0;
  std::int64_t exact = 0;
  std::int64_t sets = 0;
  std::int64_t lists = 0;    // of the oracle, claimed
  std::int64_t outside = 0;  // unclaimed lists that beat the frontier
  std::int64_t simulations = 0;
};

void check_frontier(const Graph& graph, const Span& span, const Setting& setting, Tally& tally) {
  const OpCosts costs = op_costs(graph, setting.device);
  const KeepFrontier frontier = keep_frontier(graph, span, setting, costs);
  REQUIRE(!frontier.sets.empty());
  ++tally.frontiers;
  tally.sets += static_cast<std::int64_t>(frontier.sets.size());
  tally.simulations += frontier.simulation_count;
  for (const KeepSet& set : frontier.sets) test::check_numbers(graph, span, setting, costs, set);
  for (const KeepSet& a : frontier.sets) {
    for (const KeepSet& b : frontier.sets) CHECK((&a == &b || !test::is_as_good(a, b)));
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
    const std::optional<test::Outcome> outcome =
        test::outcome_of(graph, span, setting, costs, keep);
    if (!outcome) continue;
    const bool is_met =
        std::any_of(frontier.sets.begin(), frontier.sets.end(),
                    [&](const KeepSet& set) { return test::is_as_good(set, outcome->set); });
    if (!test::is_claimed(graph, *outcome)) {
      tally.outside += is_met ? 0 : 1;
      continue;
    }
    ++tally.lists;
    CHECK_MESSAGE(
        is_met, fmt::format("{}{}", test::set_text(graph, outcome->set), test::graph_text(graph)));
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
      check_frontier(with_main_gradients(graph, setting.step), span, setting, tally);
    }
  }
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

}  // namespace cairn
