#include "tests/planner/region_trees.h"

#include <algorithm>
#include <set>

#include "sim/validator.h"

namespace cairn::test {
namespace {

using Blocks = std::vector<std::pair<std::int32_t, std::int32_t>>;
using Forests = std::vector<std::vector<Region>>;

// Of each range of blocks, what a frame may hold; by first block and count.
class Forester {
 public:
  explicit Forester(const Blocks& blocks) : blocks_(blocks), known_(blocks.size() + 1) {
    for (std::size_t first = blocks.size() + 1; first-- > 0;) {
      for (std::size_t count = 0; first + count <= blocks.size(); ++count) {
        known_[first].push_back(grow(first, count));
      }
    }
  }

  const Forests& of(std::size_t first, std::size_t count) const { return known_[first][count]; }

 private:
  // The first block is in no region, or in one of its first `length` blocks.
  Forests grow(std::size_t first, std::size_t count) {
    if (count == 0) return {{}};
    Forests forests = of(first + 1, count - 1);
    for (std::size_t length = 1; length <= count; ++length) {
      const Forests inner = length == count ? forests : of(first, length);
      for (const std::vector<Region>& held : inner) {
        const Region region{.begin = blocks_[first].first,
                            .end = blocks_[first + length - 1].second,
                            .inner = held};
        const bool holds_one_region =
            held.size() == 1 && held[0].begin == region.begin && held[0].end == region.end;
        if (holds_one_region) continue;
        for (const std::vector<Region>& rest : of(first + length, count - length)) {
          std::vector<Region> forest = {region};
          forest.insert(forest.end(), rest.begin(), rest.end());
          forests.push_back(std::move(forest));
        }
      }
    }
    return forests;
  }

  const Blocks& blocks_;
  std::vector<std::vector<Forests>> known_ = {};
};

std::vector<TensorId> keepable(const Graph& graph, const Plan& plan, const Region& region) {
  std::set<TensorId> saved;
  for (const Op& op : graph.ops) saved.insert(op.saved.begin(), op.saved.end());
  std::vector<TensorId> tensors;
  for (std::int32_t i = region.begin; i < region.end; ++i) {
    const Op& op = graph.op(plan.order[static_cast<std::size_t>(i)]);
    for (const std::vector<TensorId>& made : {op.outputs, op.auxiliaries}) {
      std::copy_if(made.begin(), made.end(), std::back_inserter(tensors),
                   [&](TensorId tensor) { return saved.contains(tensor); });
    }
  }
  return tensors;
}

}  // namespace

std::vector<std::vector<Region>> region_trees(const Blocks& blocks) {
  const Blocks in_regions(blocks.begin(), blocks.end() - 1);
  return Forester(in_regions).of(0, in_regions.size());
}

std::vector<Plan> region_tree_plans(const Graph& graph, const Blocks& blocks, Extent extent) {
  std::vector<Plan> plans;
  for (std::vector<Region>& regions : region_trees(blocks)) {
    plans.push_back(keep_all_plan(graph));
    plans.back().algorithm = "tree";
    plans.back().extent = extent;
    plans.back().regions = std::move(regions);
  }
  return plans;
}

std::vector<Plan> with_keep_lists(const Graph& graph, const Plan& plan) {
  std::vector<Plan> plans = {plan};
  for (std::size_t i = 0; i < plan.regions.size(); ++i) {
    for (const TensorId tensor : keepable(graph, plan, plan.regions[i])) {
      const std::size_t count = plans.size();
      for (std::size_t k = 0; k < count; ++k) {
        Plan more = plans[k];
        more.regions[i].keep.push_back(tensor);
        plans.push_back(std::move(more));
      }
    }
  }
  // What keeps too much may be all that makes a tensor useless: so only now.
  std::erase_if(plans, [&](const Plan& candidate) {
    return validate(graph, candidate, {}).fault == Fault::kUselessKeep;
  });
  return plans;
}

}  // namespace cairn::test
