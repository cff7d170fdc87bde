#include "planner/candidates.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <optional>

#include "graph/error.h"
#include "planner/constraints.h"

namespace cairn {
namespace {

void add_none(const Graph& graph, Extent extent, std::vector<Plan>& plans) {
  plans.push_back(make_plan(graph, {.algorithm = Algorithm::kNone}, extent));
}

// Regions of each number of layers.
std::vector<Plan> uniform_plans(const Graph& graph, Extent extent) {
  std::vector<Plan> plans;
  const auto layer_count = static_cast<std::int64_t>(layers_with_backward(graph).size());
  for (std::int64_t layers = 1; layers <= layer_count; ++layers) {
    const Strategy strategy{.algorithm = Algorithm::kUniform, .layers_per_region = layers};
    plans.push_back(make_plan(graph, strategy, extent));
  }
  return plans;
}

// The first or the last layers one region each, for each number of them.
void add_some_layers(const Graph& graph, Extent extent, bool is_first, std::vector<Plan>& plans) {
  const Plan every = make_plan(graph, {.algorithm = Algorithm::kEveryLayer}, extent);
  const std::vector<Region>& all = every.regions;
  for (std::size_t count = 1; count < all.size(); ++count) {
    Plan plan = every;
    plan.algorithm = fmt::format("{}-layers:{}", is_first ? "first" : "last", count);
    const auto some = static_cast<std::ptrdiff_t>(count);
    plan.regions = is_first ? std::vector<Region>(all.begin(), all.begin() + some)
                            : std::vector<Region>(all.end() - some, all.end());
    plans.push_back(std::move(plan));
  }
}

bool is_product_of_activations(const Graph& graph, const Op& op) {
  return op.forward.is_matmul &&
         std::none_of(op.inputs.begin(), op.inputs.end(), [&](TensorId input) {
           return graph.tensor(input).role == TensorRole::kParameter;
         });
}

// In each layer the attention proper, from its first product without weights to its last: what
// Megatron's selective recomputation of core_attn wraps (Korthikanti et al. 2022).
void add_core_attention(const Graph& graph, Extent extent, std::vector<Plan>& plans) {
  Plan plan = make_plan(graph, {.algorithm = Algorithm::kNone}, extent);
  plan.algorithm = "core-attention";
  for (const auto& [begin, end] : layers_with_backward(graph)) {
    Region region{.begin = end};
    for (std::int32_t i = begin; i < end; ++i) {
      if (!is_product_of_activations(graph, graph.ops[static_cast<std::size_t>(i)])) continue;
      region.begin = std::min(region.begin, i);
      region.end = i + 1;
    }
    if (region.begin < region.end) plan.regions.push_back(region);
  }
  if (!plan.regions.empty()) plans.push_back(std::move(plan));
}

void append(std::vector<Plan> more, std::vector<Plan>& plans) {
  std::move(more.begin(), more.end(), std::back_inserter(plans));
}

// All that the target can run, of algorithms without a chain.
std::vector<Plan> all_plans(const Graph& graph, Target target, Extent extent) {
  std::vector<Plan> plans;
  add_none(graph, extent, plans);
  switch (target) {
    case Target::kMegatron:
      add_core_attention(graph, extent, plans);
      add_some_layers(graph, extent, true, plans);
      append(uniform_plans(graph, extent), plans);
      break;
    case Target::kTorchtitan:
      plans.push_back(make_plan(graph, {.algorithm = Algorithm::kEveryLayer}, extent));
      break;
    case Target::kHf:
      plans.push_back(make_plan(graph, {.algorithm = Algorithm::kEveryLayer}, extent));
      add_some_layers(graph, extent, true, plans);
      add_some_layers(graph, extent, false, plans);
      break;
    case Target::kAny:
    case Target::kTorch:
    case Target::kJax:
      append(uniform_plans(graph, extent), plans);
      append(chen_greedy_plans(graph, extent), plans);
      append(revolve_plans(graph, extent), plans);
      add_some_layers(graph, extent, true, plans);
      add_some_layers(graph, extent, false, plans);
      break;
  }
  return plans;
}

std::vector<Plan> unconstrained_plans(const Graph& graph, const PlanRequest& request) {
  const Extent extent = request.setting.extent;
  switch (request.strategy.algorithm) {
    case Algorithm::kUniform:
      if (request.strategy.layers_per_region == 0) return uniform_plans(graph, extent);
      return {make_plan(graph, request.strategy, extent)};
    case Algorithm::kNone:
    case Algorithm::kEveryLayer:
    case Algorithm::kSqrt:
      return {make_plan(graph, request.strategy, extent)};
    case Algorithm::kChenGreedy:
      return chen_greedy_plans(graph, extent);
    case Algorithm::kRevolve:
      return revolve_plans(graph, extent);
    case Algorithm::kAuto:
      return all_plans(graph, request.target, extent);
    case Algorithm::kSelective:
    case Algorithm::kChain:
      return {};
  }
  CAIRN_CHECK(false, "unknown algorithm");
}

}  // namespace

std::vector<Plan> candidate_plans(const Graph& graph, const PlanRequest& request) {
  std::vector<Plan> plans;
  for (Plan& plan : unconstrained_plans(graph, request)) {
    std::optional<Plan> allowed = constrained(graph, request, std::move(plan));
    if (allowed) plans.push_back(std::move(*allowed));
  }
  return plans;
}

}  // namespace cairn
