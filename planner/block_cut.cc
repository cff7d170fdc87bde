#include "planner/block_cut.h"

#include <algorithm>

#include "graph/min_cut.h"

namespace cairn {
namespace {

constexpr std::size_t kSource = 0;
constexpr std::size_t kSink = 1;
constexpr std::size_t kNoNode = 0;  // the source is no op's or storage's node

// Products with the price are rounded down by more than they can be off.
constexpr double kRoundDown = 1 - 1e-14;
constexpr double kMostCapacity = static_cast<double>(kUncut) / 1024;

// An op that runs again has the node "runs"; each storage that it makes has the node "has to be
// there".
//
//   source ── read by a Backward ──► storage ── price * bytes ──► op ── cost ──► sink
//                                       ▲                         │
//                                       └───── the op's inputs ◄──┘
class CutBuilder {
 public:
  CutBuilder(const Graph& graph, const Block& block, const CutStorages& storages,
             const OpCosts& costs, double price)
      : graph_(graph), block_(block), storages_(storages), costs_(costs), price_(price) {}

  BlockCut build() {
    for (std::int32_t i = block_.begin; i < block_.end; ++i) add_op(i);
    const MinCut cut = min_cut(node_count_, edges_, kSource, kSink);
    BlockCut found{.least = static_cast<double>(cut.capacity)};
    for (const OpNode& op : ops_) {
      if (cut.is_on_source_side[op.node]) found.cost += op.cost;
    }
    for (const StorageNode& storage : wanted_) {
      if (!cut.is_on_source_side[storage.node] || cut.is_on_source_side[storage.op_node]) continue;
      found.bytes += static_cast<double>(graph_.storage(storage.storage).bytes);
    }
    return found;
  }

 private:
  struct OpNode {
    std::size_t node = kNoNode;
    double cost = 0;
  };
  struct StorageNode {
    StorageId storage = {};
    std::size_t node = kNoNode;
    std::size_t op_node = kNoNode;
  };

  std::size_t node_of(StorageId storage) const {
    const auto found = std::find_if(wanted_.begin(), wanted_.end(), [&](const StorageNode& known) {
      return known.storage == storage;
    });
    return found == wanted_.end() ? kNoNode : found->node;
  }

  void add_op(std::int32_t position) {
    const Op& op = graph_.ops[static_cast<std::size_t>(position)];
    std::size_t node = kNoNode;
    for (const auto* made : {&op.outputs, &op.auxiliaries}) {
      for (const TensorId tensor : *made) {
        const StorageId storage = graph_.tensor(tensor).storage;
        if (graph_.storage(storage).owner != tensor || storages_.is_given[index(storage)]) continue;
        if (node == kNoNode)
          node = add_op_node(op, costs_.forward[static_cast<std::size_t>(position)]);
        add_storage(storage, node);
      }
    }
  }

  std::size_t add_op_node(const Op& op, std::int64_t cost) {
    const std::size_t node = node_count_++;
    ops_.push_back({.node = node, .cost = static_cast<double>(cost)});
    const bool never = op.recompute == RecomputePolicy::kNever;
    edges_.push_back({.from = node, .to = kSink, .capacity = never ? kUncut : cost});
    for (const TensorId input : op.inputs) {
      const std::size_t input_node = node_of(graph_.tensor(input).storage);
      if (input_node == kNoNode) continue;
      edges_.push_back({.from = node, .to = input_node, .capacity = kUncut});
    }
    return node;
  }

  void add_storage(StorageId storage, std::size_t op_node) {
    const std::size_t node = node_count_++;
    wanted_.push_back({.storage = storage, .node = node, .op_node = op_node});
    const double keep = price_ * static_cast<double>(graph_.storage(storage).bytes) * kRoundDown;
    edges_.push_back({.from = node,
                      .to = op_node,
                      .capacity = static_cast<std::int64_t>(std::min(keep, kMostCapacity))});
    if (!storages_.is_read[index(storage)]) return;
    edges_.push_back({.from = kSource, .to = node, .capacity = kUncut});
  }

  const Graph& graph_;
  const Block& block_;
  const CutStorages& storages_;
  const OpCosts& costs_;
  double price_ = 0;
  std::size_t node_count_ = 2;
  std::vector<CutEdge> edges_ = {};
  std::vector<OpNode> ops_ = {};
  std::vector<StorageNode> wanted_ = {};
};

}  // namespace

CutStorages cut_storages(const Graph& graph, const std::vector<Block>& blocks) {
  CutStorages storages{.is_read = std::vector<bool>(graph.storages.size(), false),
                       .is_given = std::vector<bool>(graph.storages.size(), false)};
  for (const Block& block : blocks) {
    if (block.input == kNoTensor) continue;
    storages.is_given[index(graph.tensor(block.input).storage)] = true;
  }
  for (const Op& op : graph.ops) {
    if (!op.has_backward) continue;
    for (const TensorId saved : op.saved) {
      storages.is_read[index(graph.tensor(saved).storage)] = true;
    }
  }
  return storages;
}

BlockCut cheapest_cut(const Graph& graph, const Block& block, const CutStorages& storages,
                      const OpCosts& costs, double price) {
  return CutBuilder(graph, block, storages, costs, price).build();
}

}  // namespace cairn
