#include "planner/candidates.h"

#include "graph/error.h"

namespace cairn {
namespace {

// "none", and regions of each number of layers.
std::vector<Plan> uniform_plans(const Graph& graph, Extent extent) {
  std::vector<Plan> plans = {make_plan(graph, {.algorithm = Algorithm::kNone}, extent)};
  const auto layer_count = static_cast<std::int64_t>(layer_ranges(graph).size());
  for (std::int64_t layers = 1; layers <= layer_count; ++layers) {
    const Strategy strategy{.algorithm = Algorithm::kUniform, .layers_per_region = layers};
    plans.push_back(make_plan(graph, strategy, extent));
  }
  return plans;
}

}  // namespace

std::vector<Plan> candidate_plans(const Graph& graph, const PlanRequest& request) {
  const Extent extent = request.setting.extent;
  switch (request.strategy.algorithm) {
    case Algorithm::kNone:
    case Algorithm::kEveryLayer:
    case Algorithm::kUniform:
    case Algorithm::kSqrt:
      return {make_plan(graph, request.strategy, extent)};
    case Algorithm::kAuto:
      return uniform_plans(graph, extent);
    case Algorithm::kChenGreedy:
      return chen_greedy_plans(graph, extent);
    case Algorithm::kRevolve:
      return revolve_plans(graph, extent);
    case Algorithm::kSelective:
    case Algorithm::kChain:
      throw InputError("strategy '" + strategy_name(request.strategy) + "': not in this version");
  }
  CAIRN_CHECK(false, "unknown algorithm");
}

}  // namespace cairn
