#include "planner/constraints.h"

#include <fmt/format.h>

#include <algorithm>

#include "graph/error.h"
#include "graph/recompute_sets.h"
#include "graph/region_tree.h"
#include "planner/target.h"

namespace cairn {
namespace {

bool contains(const std::vector<TensorId>& tensors, TensorId tensor) {
  return std::find(tensors.begin(), tensors.end(), tensor) != tensors.end();
}

bool is_saved(const Graph& graph, TensorId tensor) {
  return std::any_of(graph.ops.begin(), graph.ops.end(),
                     [&](const Op& op) { return op.has_backward && contains(op.saved, tensor); });
}

// The outermost region that makes the tensor, or null.
Region* region_of(Plan& plan, const std::vector<std::int32_t>& position_of_op, OpId producer) {
  const std::int32_t made_at = position_of_op[index(producer)];
  for (Region& region : plan.regions) {
    if (made_at >= region.begin && made_at < region.end) return &region;
  }
  return nullptr;
}

std::string algorithm_name(const Strategy& strategy) {
  const bool is_any = strategy.algorithm == Algorithm::kUniform && strategy.layers_per_region == 0;
  return is_any ? "uniform:K" : strategy_name(strategy);
}

void check_saved(const Graph& graph, TensorId tensor, std::string_view option) {
  const Tensor& named = graph.tensor(tensor);
  if (named.producer == kNoOp) {
    throw InputError(
        fmt::format("{} '{}': no op makes it, it is there all the while", option, named.name));
  }
  if (!is_saved(graph, tensor)) {
    throw InputError(fmt::format(
        "{} '{}': no Backward reads it, so it is neither kept nor made again", option, named.name));
  }
}

}  // namespace

void check_request(const Graph& graph, const PlanRequest& request) {
  if (!runs_algorithm(request.target, request.strategy.algorithm)) {
    throw InputError(fmt::format("{} cannot run plans of {}; expected auto, or another --for",
                                 target_name(request.target), algorithm_name(request.strategy)));
  }
  for (const TensorId tensor : request.keep) check_saved(graph, tensor, "--keep");
  for (const TensorId tensor : request.recompute) {
    check_saved(graph, tensor, "--recompute");
    const Tensor& named = graph.tensor(tensor);
    if (contains(request.keep, tensor)) {
      throw InputError(fmt::format("'{}' is to be kept and to be made again", named.name));
    }
    if (graph.op(named.producer).recompute == RecomputePolicy::kNever) {
      throw InputError(fmt::format("--recompute '{}': its op '{}' may not run twice", named.name,
                                   graph.op(named.producer).name));
    }
  }
}

std::optional<Plan> constrained(const Graph& graph, const PlanRequest& request, Plan plan) {
  if (request.keep.empty() && request.recompute.empty()) return plan;
  const std::vector<std::int32_t> positions = flatten_regions(graph, plan).position_of_op;
  for (const TensorId tensor : request.keep) {
    Region* region = region_of(plan, positions, graph.tensor(tensor).producer);
    if (region == nullptr || contains(region->keep, tensor)) continue;
    if (!runs_keep_lists(request.target)) return std::nullopt;
    region->keep.push_back(tensor);
  }
  for (const TensorId tensor : request.recompute) {
    const Region* region = region_of(plan, positions, graph.tensor(tensor).producer);
    if (region == nullptr || contains(region->keep, tensor)) return std::nullopt;
  }
  return plan;
}

}  // namespace cairn
