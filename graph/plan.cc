#include "graph/plan.h"

#include <fmt/format.h>

#include <cstddef>

#include "graph/error.h"
#include "graph/in_place.h"
#include "graph/region_tree.h"

namespace cairn {
namespace {

constexpr Extent kExtents[] = {Extent::kNeeded, Extent::kPrefix, Extent::kWhole};

// Returns the position of each op, by id.
std::vector<std::int32_t> check_order(const Graph& graph, const Plan& plan) {
  if (plan.order.size() != graph.ops.size()) {
    throw InputError(fmt::format("plan: its order has {} ops, the graph has {}", plan.order.size(),
                                 graph.ops.size()));
  }
  std::vector<std::int32_t> position(graph.ops.size(), -1);
  for (std::size_t i = 0; i < plan.order.size(); ++i) {
    if (index(plan.order[i]) >= graph.ops.size()) {
      throw InputError(fmt::format("plan: op number {} is not in the graph",
                                   static_cast<std::int32_t>(plan.order[i])));
    }
    std::int32_t& place = position[index(plan.order[i])];
    const Op& op = graph.op(plan.order[i]);
    if (place >= 0) throw InputError(fmt::format("plan: op '{}' is ordered twice", op.name));
    place = static_cast<std::int32_t>(i);
    for (const TensorId input : op.inputs) {
      const OpId producer = graph.tensor(input).producer;
      if (producer != kNoOp && position[index(producer)] < 0) {
        throw InputError(fmt::format("plan: op '{}' comes before '{}', which makes its input '{}'",
                                     op.name, graph.op(producer).name, graph.tensor(input).name));
      }
    }
  }
  return position;
}

// By storage: the position of the last op that overwrites it, -1 for none.
std::vector<std::int32_t> last_overwrites(const Graph& graph, const Plan& plan) {
  std::vector<std::int32_t> last(graph.storages.size(), -1);
  for (std::size_t i = 0; i < plan.order.size(); ++i) {
    const Op& op = graph.op(plan.order[i]);
    if (!op.in_place) continue;
    last[index(graph.tensor(op.outputs[0]).storage)] = static_cast<std::int32_t>(i);
  }
  return last;
}

// An order and what follows from it.
struct CheckedOrder {
  std::vector<std::int32_t> position = {};        // by op id
  std::vector<std::int32_t> last_overwrite = {};  // by storage
};

void check_keep(const Graph& graph, const Plan& plan, const CheckedOrder& order,
                const Region& region) {
  for (const TensorId kept : region.keep) {
    const std::string name = fmt::format("plan: region [{}, {})", region.begin, region.end);
    if (index(kept) >= graph.tensors.size()) {
      throw InputError(fmt::format("{} keeps tensor number {}, which is not in the graph", name,
                                   static_cast<std::int32_t>(kept)));
    }
    const Tensor& tensor = graph.tensor(kept);
    const std::int32_t made_at =
        tensor.producer == kNoOp ? -1 : order.position[index(tensor.producer)];
    if (made_at < region.begin || made_at >= region.end) {
      throw InputError(fmt::format("{} keeps '{}', which it does not make", name, tensor.name));
    }
    const std::int32_t overwritten_at = order.last_overwrite[index(tensor.storage)];
    if (overwritten_at > made_at) {
      const OpId by = plan.order[static_cast<std::size_t>(overwritten_at)];
      throw InputError(fmt::format("{} keeps '{}', which op '{}' overwrites", name, tensor.name,
                                   graph.op(by).name));
    }
  }
}

void check_regions(const Graph& graph, const Plan& plan, const CheckedOrder& order,
                   const std::vector<Region>& regions, std::int32_t begin, std::int32_t end,
                   int depth) {
  std::int32_t free_from = begin;
  for (const Region& region : regions) {
    const std::string name = fmt::format("plan: region [{}, {})", region.begin, region.end);
    if (region.begin >= region.end) throw InputError(name + " is empty");
    if (region.begin < free_from || region.end > end) {
      throw InputError(
          fmt::format("{} overlaps its neighbour or leaves [{}, {})", name, begin, end));
    }
    if (depth > 0 && !region.keep.empty()) {
      throw InputError(name + " has a keep list, which only outermost regions may have");
    }
    check_keep(graph, plan, order, region);
    check_regions(graph, plan, order, region.inner, region.begin, region.end, depth + 1);
    free_from = region.end;
  }
}

}  // namespace

Plan keep_all_plan(const Graph& graph) {
  Plan plan{.algorithm = "none"};
  plan.order.resize(graph.ops.size());
  for (std::size_t i = 0; i < plan.order.size(); ++i) plan.order[i] = static_cast<OpId>(i);
  return plan;
}

void check_plan(const Graph& graph, const Plan& plan) {
  const CheckedOrder order{.position = check_order(graph, plan),
                           .last_overwrite = last_overwrites(graph, plan)};
  check_regions(graph, plan, order, plan.regions, 0, static_cast<std::int32_t>(plan.order.size()),
                0);
  check_in_place(graph, plan.order);
  check_in_place_regions(graph, plan.order, flatten_regions(graph, plan));
}

std::string_view extent_name(Extent extent) {
  switch (extent) {
    case Extent::kNeeded:
      return "needed";
    case Extent::kPrefix:
      return "prefix";
    case Extent::kWhole:
      return "whole";
  }
  CAIRN_CHECK(false, "unknown extent");
}

std::optional<Extent> find_extent(std::string_view name) {
  for (const Extent extent : kExtents) {
    if (name == extent_name(extent)) return extent;
  }
  return std::nullopt;
}

std::vector<std::string> extent_names() {
  std::vector<std::string> names;
  for (const Extent extent : kExtents) names.emplace_back(extent_name(extent));
  return names;
}

}  // namespace cairn
