#include "planner/planner.h"

namespace cairn {
namespace {

// The smallest k with k * k >= n.
std::int64_t ceil_sqrt(std::int64_t n) {
  std::int64_t k = 0;
  while (k * k < n) ++k;
  return k;
}

}  // namespace

// With r regions of k of n equal layers, forward holds the r inputs of the regions, and backward
// the k inputs of one region's layers besides: r + k is least at k = sqrt(n), about 2 sqrt(n).
Plan plan_sqrt(const Graph& graph, Extent extent) {
  const auto layer_count = static_cast<std::int64_t>(layers_with_backward(graph).size());
  const std::int64_t layers_per_region = layer_count == 0 ? 1 : ceil_sqrt(layer_count);
  Plan plan = plan_uniform(graph, layers_per_region, extent);
  plan.algorithm = strategy_name({.algorithm = Algorithm::kSqrt});
  return plan;
}

}  // namespace cairn
