#include <algorithm>

#include "graph/error.h"
#include "planner/planner.h"

namespace cairn {
namespace {

// Does some op from `position` on have a Backward? If none has, a region that ends there is
// recomputed as soon as it is dropped.
bool backward_starts_behind(const Graph& graph, std::int32_t position) {
  return std::any_of(graph.ops.begin() + position, graph.ops.end(),
                     [](const Op& op) { return op.has_backward; });
}

}  // namespace

Plan plan_uniform(const Graph& graph, std::int64_t layers_per_region, Extent extent) {
  CAIRN_CHECK(layers_per_region >= 1, std::to_string(layers_per_region) + " layers a region");
  Plan plan = keep_all_plan(graph);
  plan.algorithm =
      strategy_name({.algorithm = Algorithm::kUniform, .layers_per_region = layers_per_region});
  plan.extent = extent;
  const auto layers = layers_with_backward(graph);
  const std::size_t step = std::min(layers.size(), static_cast<std::size_t>(layers_per_region));
  for (std::size_t first = 0; first < layers.size(); first += step) {
    const std::size_t last = std::min(first + step, layers.size()) - 1;
    if (!backward_starts_behind(graph, layers[last].second)) break;
    plan.regions.push_back({.begin = layers[first].first, .end = layers[last].second});
  }
  return plan;
}

}  // namespace cairn
