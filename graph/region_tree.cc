#include "graph/region_tree.h"

#include <algorithm>

namespace cairn {
namespace {

void flatten(const std::vector<Region>& regions, std::int32_t parent, RegionTree& tree) {
  for (const Region& region : regions) {
    const auto frame = static_cast<std::int32_t>(tree.frames.size());
    const std::int32_t depth = tree.frames[static_cast<std::size_t>(parent)].depth + 1;
    tree.frames.push_back(
        {.parent = parent, .begin = region.begin, .end = region.end, .depth = depth});
    flatten(region.inner, frame, tree);
  }
}

}  // namespace

RegionTree flatten_regions(const Graph& graph, const Plan& plan) {
  RegionTree tree;
  tree.frames.push_back({.end = static_cast<std::int32_t>(plan.order.size())});
  flatten(plan.regions, 0, tree);
  tree.frame_of_op.assign(graph.ops.size(), 0);
  tree.position_of_op.assign(graph.ops.size(), 0);
  for (std::size_t frame = 1; frame < tree.frames.size(); ++frame) {
    for (std::int32_t i = tree.frames[frame].begin; i < tree.frames[frame].end; ++i) {
      const OpId op = plan.order[static_cast<std::size_t>(i)];
      tree.frame_of_op[index(op)] = static_cast<std::int32_t>(frame);
    }
  }
  for (std::size_t i = 0; i < plan.order.size(); ++i) {
    tree.position_of_op[index(plan.order[i])] = static_cast<std::int32_t>(i);
  }
  return tree;
}

std::int32_t common_frame(const RegionTree& tree, std::int32_t a, std::int32_t b) {
  while (a != b) {
    std::int32_t& deeper = tree.frames[static_cast<std::size_t>(a)].depth >=
                                   tree.frames[static_cast<std::size_t>(b)].depth
                               ? a
                               : b;
    deeper = tree.frames[static_cast<std::size_t>(deeper)].parent;
  }
  return a;
}

bool is_inside(const RegionTree& tree, std::int32_t frame, std::int32_t ancestor) {
  return common_frame(tree, frame, ancestor) == ancestor;
}

std::vector<std::vector<TensorId>> region_inputs(const Graph& graph, const RegionTree& tree) {
  std::vector<std::vector<TensorId>> inputs(tree.frames.size());
  for (std::size_t i = 0; i < graph.ops.size(); ++i) {
    for (const TensorId input : graph.ops[i].inputs) {
      const OpId producer = graph.tensor(input).producer;
      if (producer == kNoOp) continue;
      const std::int32_t made_in = tree.frame_of_op[index(producer)];
      const std::int32_t shared = common_frame(tree, made_in, tree.frame_of_op[i]);
      for (std::int32_t frame = tree.frame_of_op[i]; frame != shared;
           frame = tree.frames[static_cast<std::size_t>(frame)].parent) {
        inputs[static_cast<std::size_t>(frame)].push_back(input);
      }
    }
  }
  for (std::vector<TensorId>& list : inputs) {
    std::sort(list.begin(), list.end());
    list.erase(std::unique(list.begin(), list.end()), list.end());
  }
  return inputs;
}

}  // namespace cairn
