#include "planner/planner.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "graph/dag.h"
#include "graph/error.h"

namespace cairn {
namespace {

using LayerRange = std::pair<std::int32_t, std::int32_t>;

constexpr std::string_view kUniformName = "uniform";

constexpr Algorithm kWithoutBudget[] = {Algorithm::kNone, Algorithm::kEveryLayer,
                                        Algorithm::kUniform, Algorithm::kSqrt};
constexpr Algorithm kWithBudget[] = {Algorithm::kChenGreedy, Algorithm::kRevolve,
                                     Algorithm::kSelective, Algorithm::kChain, Algorithm::kAuto};

[[noreturn]] void refuse(std::string_view text, const std::string& why) {
  throw InputError(fmt::format("strategy '{}': {}", text, why));
}

// The name without a number.
std::string_view base_name(Algorithm algorithm) {
  switch (algorithm) {
    case Algorithm::kNone:
      return "none";
    case Algorithm::kEveryLayer:
      return "every-layer";
    case Algorithm::kUniform:
      return kUniformName;
    case Algorithm::kSqrt:
      return "sqrt";
    case Algorithm::kChenGreedy:
      return "chen-greedy";
    case Algorithm::kRevolve:
      return "revolve";
    case Algorithm::kSelective:
      return "selective";
    case Algorithm::kChain:
      return "chain";
    case Algorithm::kAuto:
      return "auto";
  }
  CAIRN_CHECK(false, "unknown algorithm");
}

std::string offered_name(Algorithm algorithm) {
  return std::string(base_name(algorithm)) + (algorithm == Algorithm::kUniform ? ":K" : "");
}

std::vector<std::string> offered_names(const std::vector<Algorithm>& algorithms) {
  std::vector<std::string> names;
  for (const Algorithm algorithm : algorithms) names.push_back(offered_name(algorithm));
  return names;
}

std::vector<Algorithm> all_algorithms() {
  std::vector<Algorithm> all(std::begin(kWithoutBudget), std::end(kWithoutBudget));
  all.insert(all.end(), std::begin(kWithBudget), std::end(kWithBudget));
  return all;
}

[[noreturn]] void refuse_name(std::string_view text, std::string_view name,
                              const std::vector<Algorithm>& expected) {
  std::vector<std::string> names;
  for (const Algorithm algorithm : expected) names.emplace_back(base_name(algorithm));
  const std::string nearest = nearest_name(name, names);
  const std::string offer = nearest == kUniformName ? "uniform:K" : nearest;
  refuse(text, "expected one of " + join_names(offered_names(expected)) +
                   (offer.empty() ? "" : "; did you mean '" + offer + "'?"));
}

std::int64_t parse_layer_count(std::string_view text, std::string_view digits) {
  if (digits.empty()) refuse(text, "expected the layers of a region, as in 'uniform:4'");
  std::int64_t count = 0;
  const char* const end = digits.data() + digits.size();
  const auto [stop, error] = std::from_chars(digits.data(), end, count);
  if (error == std::errc::result_out_of_range) {
    refuse(text, "expected a number of layers within 64 bits");
  }
  if (error != std::errc() || stop != end) {
    refuse(text,
           fmt::format("expected a whole number of layers, as in 'uniform:4', found '{}'", digits));
  }
  if (count < 1) {
    refuse(text, fmt::format("expected at least 1 layer in a region, found {}", count));
  }
  return count;
}

Strategy parse_one_of(std::string_view text, const std::vector<Algorithm>& expected) {
  const std::size_t colon = text.find(':');
  const std::string_view name = text.substr(0, colon);
  const auto found = std::find_if(expected.begin(), expected.end(), [&](Algorithm algorithm) {
    return base_name(algorithm) == name;
  });
  if (found == expected.end()) refuse_name(text, name, expected);
  if (*found == Algorithm::kUniform) {
    const std::string_view digits = colon == std::string_view::npos ? "" : text.substr(colon + 1);
    return {.algorithm = Algorithm::kUniform, .layers_per_region = parse_layer_count(text, digits)};
  }
  if (colon != std::string_view::npos) {
    refuse(text, fmt::format("'{}' takes no number; did you mean 'uniform:K'?", name));
  }
  return {.algorithm = *found};
}

// From the first to the last op of each repeated block; blocks that interleave are one layer.
std::vector<LayerRange> block_ranges(const Graph& graph) {
  std::vector<LayerRange> of_block(static_cast<std::size_t>(graph.block_count), {-1, -1});
  for (std::size_t i = 0; i < graph.ops.size(); ++i) {
    if (graph.ops[i].block < 0) continue;
    auto& [begin, end] = of_block[static_cast<std::size_t>(graph.ops[i].block)];
    if (begin < 0) begin = static_cast<std::int32_t>(i);
    end = static_cast<std::int32_t>(i) + 1;
  }
  std::erase(of_block, LayerRange{-1, -1});
  std::sort(of_block.begin(), of_block.end());
  std::vector<LayerRange> ranges;
  for (const LayerRange& range : of_block) {
    if (!ranges.empty() && range.first < ranges.back().second) {
      ranges.back().second = std::max(ranges.back().second, range.second);
    } else {
      ranges.push_back(range);
    }
  }
  return ranges;
}

// From the first op with a Backward to the last, ending a range behind each articulation op.
std::vector<LayerRange> articulation_ranges(const Graph& graph) {
  const auto has_backward = [](const Op& op) { return op.has_backward; };
  const auto first = std::find_if(graph.ops.begin(), graph.ops.end(), has_backward);
  const auto last = std::find_if(graph.ops.rbegin(), graph.ops.rend(), has_backward);
  if (first == graph.ops.end()) return {};
  std::vector<LayerRange> ranges;
  auto begin = static_cast<std::int32_t>(first - graph.ops.begin());
  for (const OpId op : articulation_ops(graph)) {
    const auto end = static_cast<std::int32_t>(op) + 1;
    ranges.emplace_back(begin, end);
    begin = end;
  }
  const auto end = static_cast<std::int32_t>(graph.ops.rend() - last);
  if (begin < end) ranges.emplace_back(begin, end);
  return ranges;
}

}  // namespace

Strategy parse_strategy(std::string_view text) {
  return parse_one_of(text, {std::begin(kWithoutBudget), std::end(kWithoutBudget)});
}

Strategy parse_algorithm(std::string_view text) { return parse_one_of(text, all_algorithms()); }

std::string strategy_name(const Strategy& strategy) {
  std::string name(base_name(strategy.algorithm));
  if (strategy.algorithm != Algorithm::kUniform) return name;
  return fmt::format("{}:{}", name, strategy.layers_per_region);
}

std::vector<std::string> strategy_names() {
  return offered_names({std::begin(kWithoutBudget), std::end(kWithoutBudget)});
}

std::vector<std::string> algorithm_names() { return offered_names(all_algorithms()); }

bool is_checkpointed(const Strategy& strategy) { return strategy.algorithm != Algorithm::kNone; }

bool needs_budget(Algorithm algorithm) {
  return std::find(std::begin(kWithBudget), std::end(kWithBudget), algorithm) !=
         std::end(kWithBudget);
}

Plan make_plan(const Graph& graph, const Strategy& strategy, Extent extent) {
  Plan plan;
  switch (strategy.algorithm) {
    case Algorithm::kNone:
      plan = keep_all_plan(graph);
      break;
    case Algorithm::kEveryLayer:
      plan = plan_uniform(graph, 1, extent);
      break;
    case Algorithm::kUniform:
      plan = plan_uniform(graph, strategy.layers_per_region, extent);
      break;
    case Algorithm::kSqrt:
      plan = plan_sqrt(graph, extent);
      break;
    default:
      CAIRN_CHECK(false, strategy_name(strategy) + " needs a budget");
  }
  plan.algorithm = strategy_name(strategy);
  plan.extent = extent;
  return plan;
}

std::vector<LayerRange> layer_ranges(const Graph& graph) {
  return graph.block_count > 0 ? block_ranges(graph) : articulation_ranges(graph);
}

std::vector<LayerRange> layers_with_backward(const Graph& graph) {
  std::vector<LayerRange> layers = layer_ranges(graph);
  const auto first = std::find_if(layers.begin(), layers.end(), [&](const LayerRange& layer) {
    return std::any_of(graph.ops.begin() + layer.first, graph.ops.begin() + layer.second,
                       [](const Op& op) { return op.has_backward; });
  });
  layers.erase(layers.begin(), first);
  return layers;
}

}  // namespace cairn
