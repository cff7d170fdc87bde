#include "planner/block_cut.h"

#include <algorithm>
#include <limits>
#include <map>

#include "graph/min_cut.h"

namespace cairn {
namespace {

constexpr std::size_t kSource = 0;
constexpr std::size_t kSink = 1;
constexpr std::size_t kNoNode = 0;  // the source is no op's or storage's node

// Products with the price are rounded down by more than they can be off.
constexpr double kRoundDown = 1 - 1e-14;

// Capacities are whole numbers, of which running all of a block again is so many: large enough to
// lose nothing that is printed, small enough for sums over a block. What is dearer to keep than to
// run all again is not kept, however dear.
constexpr double kAllCosts = 4294967296.0;  // 2^32
constexpr double kMostCapacity = 2 * kAllCosts;

constexpr StorageId kNoStorage{-1};
constexpr BlockCut kImpossible = {.least = std::numeric_limits<double>::infinity()};

// What is asked of a block beside what its own Backwards read.
struct BlockTask {
  bool has_input = false;  // the block's input is there; else what needs it is out of the question
  bool makes_output = false;  // the op that makes what is handed on runs again
};

// An op that runs again has the node "runs"; each storage that it makes has the node "has to be
// there".
//
//   source ── read by a Backward ──► storage ── price * bytes ──► op ── cost ──► sink
//                                       ▲                         │
//                                       └───── the op's inputs ◄──┘
class CutBuilder {
 public:
  CutBuilder(const Graph& graph, const Block& block, const CutStorages& storages,
             const OpCosts& costs, double price, const BlockTask& task)
      : graph_(graph),
        block_(block),
        storages_(storages),
        costs_(costs),
        price_(price),
        task_(task),
        input_storage_(storage_of(block.input)),
        output_storage_(storage_of(block.output)) {}

  BlockCut build() {
    if (!task_.has_input && reads_input_in_backward()) return kImpossible;
    set_scale();
    for (std::int32_t i = block_.begin; i < block_.end; ++i) add_op(i);
    const MinCut cut = min_cut(node_count_, edges_, kSource, kSink);
    if (cut.capacity == kUncut) return kImpossible;
    BlockCut found{.least = static_cast<double>(cut.capacity) / scale_ * kRoundDown};
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

  void set_scale() {
    double all_costs = 0;
    for (std::int32_t i = block_.begin; i < block_.end; ++i) {
      all_costs += static_cast<double>(costs_.forward[static_cast<std::size_t>(i)]);
    }
    scale_ = kAllCosts / std::max(all_costs, 1.0);
  }

  // Rounded down, by which the cut can only seem cheaper.
  std::int64_t capacity_of(double cost) const {
    return static_cast<std::int64_t>(std::min(cost * scale_ * kRoundDown, kMostCapacity));
  }

  StorageId storage_of(TensorId tensor) const {
    return tensor == kNoTensor ? kNoStorage : graph_.tensor(tensor).storage;
  }

  bool reads_input_in_backward() const {
    for (std::int32_t i = block_.begin; i < block_.end; ++i) {
      const Op& op = graph_.ops[static_cast<std::size_t>(i)];
      if (!op.has_backward) continue;
      for (const TensorId saved : op.saved) {
        if (storage_of(saved) == input_storage_) return true;
      }
    }
    return false;
  }

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
        if (graph_.storage(storage).owner != tensor) continue;
        if (node == kNoNode) {
          node = add_op_node(op, costs_.forward[static_cast<std::size_t>(position)]);
        }
        if (!storages_.is_handed_on[index(storage)]) {
          add_storage(storage, node);
        } else if (storage == output_storage_ && task_.makes_output) {
          edges_.push_back({.from = kSource, .to = node, .capacity = kUncut});
        }
      }
    }
  }

  std::size_t add_op_node(const Op& op, std::int64_t cost) {
    const std::size_t node = node_count_++;
    ops_.push_back({.node = node, .cost = static_cast<double>(cost)});
    const bool never = op.recompute == RecomputePolicy::kNever;
    edges_.push_back({.from = node,
                      .to = kSink,
                      .capacity = never ? kUncut : capacity_of(static_cast<double>(cost))});
    for (const TensorId input : op.inputs) {
      const StorageId storage = graph_.tensor(input).storage;
      if (storage == input_storage_ && !task_.has_input) {
        edges_.push_back({.from = node, .to = kSink, .capacity = kUncut});
      }
      const std::size_t input_node = node_of(storage);
      if (input_node == kNoNode) continue;
      edges_.push_back({.from = node, .to = input_node, .capacity = kUncut});
    }
    return node;
  }

  void add_storage(StorageId storage, std::size_t op_node) {
    const std::size_t node = node_count_++;
    wanted_.push_back({.storage = storage, .node = node, .op_node = op_node});
    const auto bytes = static_cast<double>(graph_.storage(storage).bytes);
    edges_.push_back({.from = node, .to = op_node, .capacity = capacity_of(price_ * bytes)});
    if (!storages_.is_read[index(storage)]) return;
    edges_.push_back({.from = kSource, .to = node, .capacity = kUncut});
  }

  const Graph& graph_;
  const Block& block_;
  const CutStorages& storages_;
  const OpCosts& costs_;
  double price_ = 0;
  double scale_ = 1;  // capacity of a cost
  BlockTask task_ = {};
  StorageId input_storage_ = kNoStorage;
  StorageId output_storage_ = kNoStorage;
  std::size_t node_count_ = 2;
  std::vector<CutEdge> edges_ = {};
  std::vector<OpNode> ops_ = {};
  std::vector<StorageNode> wanted_ = {};
};

// Of one kind of block, for each task.
struct KindCuts {
  BlockCut without_input = {};
  BlockCut with_input = {};
  BlockCut output_without_input = {};
  BlockCut output_with_input = {};
};

KindCuts cuts_of(const Graph& graph, const Block& block, const CutStorages& storages,
                 const OpCosts& costs, double price) {
  const auto cut = [&](bool has_input, bool makes_output) {
    const BlockTask task{.has_input = has_input, .makes_output = makes_output};
    return CutBuilder(graph, block, storages, costs, price, task).build();
  };
  return {.without_input = cut(false, false),
          .with_input = cut(true, false),
          .output_without_input = cut(false, true),
          .output_with_input = cut(true, true)};
}

BlockCut plus(const BlockCut& a, const BlockCut& b) {
  return {.least = a.least + b.least, .cost = a.cost + b.cost, .bytes = a.bytes + b.bytes};
}

const BlockCut& cheaper(const BlockCut& a, const BlockCut& b) { return b.least < a.least ? b : a; }

// The input of a block, kept. A view of what is always there, or of an earlier block's input, costs
// nothing more.
BlockCut input_kept(const Graph& graph, const Block& before, const Block& block, double price) {
  const Storage& storage = graph.storage(graph.tensor(block.input).storage);
  const OpId producer = graph.tensor(storage.owner).producer;
  if (producer == kNoOp || static_cast<std::int32_t>(producer) < before.begin) return {};
  const auto bytes = static_cast<double>(storage.bytes);
  return {.least = price * bytes * kRoundDown, .bytes = bytes};
}

}  // namespace

CutStorages cut_storages(const Graph& graph, const std::vector<Block>& blocks) {
  CutStorages storages{.is_read = std::vector<bool>(graph.storages.size(), false),
                       .is_handed_on = std::vector<bool>(graph.storages.size(), false)};
  for (const Block& block : blocks) {
    if (block.input == kNoTensor) continue;
    storages.is_handed_on[index(graph.tensor(block.input).storage)] = true;
  }
  for (const Op& op : graph.ops) {
    if (!op.has_backward) continue;
    for (const TensorId saved : op.saved) {
      storages.is_read[index(graph.tensor(saved).storage)] = true;
    }
  }
  return storages;
}

std::vector<BlockCut> cheapest_cuts(const Graph& graph, const std::vector<Block>& blocks,
                                    const CutStorages& storages, const OpCosts& costs,
                                    double price) {
  std::map<std::int32_t, KindCuts> cuts_of_kind;
  std::vector<BlockCut> sums(blocks.size() + 1);
  BlockCut makes_output =
      kImpossible;  // of the blocks so far, when what is handed on is made again
  for (std::size_t b = 0; b < blocks.size(); ++b) {
    const Block& block = blocks[b];
    const auto [known, is_new] = cuts_of_kind.try_emplace(block.kind);
    if (is_new) known->second = cuts_of(graph, block, storages, costs, price);
    const KindCuts& cuts = known->second;
    const BlockCut kept =
        b == 0 ? sums[b] : plus(sums[b], input_kept(graph, blocks[b - 1], block, price));
    const BlockCut& with_input = cheaper(kept, makes_output);
    sums[b + 1] = cheaper(plus(sums[b], cuts.without_input), plus(with_input, cuts.with_input));
    makes_output =
        cheaper(plus(sums[b], cuts.output_without_input), plus(with_input, cuts.output_with_input));
  }
  return sums;
}

}  // namespace cairn
