#include "planner/lower_bound.h"

#include <algorithm>
#include <cmath>

#include "graph/error.h"
#include "graph/min_cut.h"

namespace cairn {
namespace {

// Products with a price are rounded to the side on which the bound stays one.
constexpr double kRoundUp = 1 + 1e-13;
constexpr double kRoundDown = 1 - 1e-13;

// Distinct storages, and their bytes.
class Storages {
 public:
  explicit Storages(const Graph& graph) : graph_(graph) {}

  void add(TensorId tensor) {
    const StorageId storage = graph_.tensor(tensor).storage;
    if (std::find(storages_.begin(), storages_.end(), storage) == storages_.end()) {
      storages_.push_back(storage);
      bytes_ += graph_.storage(storage).bytes;
    }
  }
  std::int64_t bytes() const { return bytes_; }

 private:
  const Graph& graph_;
  std::vector<StorageId> storages_ = {};
  std::int64_t bytes_ = 0;
};

// A block, and where the one before it begins.
struct BlockPair {
  const Block& block;
  std::int32_t begin_before = 0;
};

// Whether the tensor's bytes are made in the block, or made by the one before and handed to it.
bool is_of_block(const Graph& graph, TensorId tensor, const BlockPair& pair) {
  const Block& block = pair.block;
  const OpId producer = graph.tensor(graph.storage(graph.tensor(tensor).storage).owner).producer;
  if (producer == kNoOp) return false;
  const auto made_at = static_cast<std::int32_t>(producer);
  const bool is_input = tensor == block.input && made_at >= pair.begin_before;
  return is_input || (made_at >= block.begin && made_at < block.end);
}

void add_all(const Graph& graph, const BlockPair& pair, const std::vector<TensorId>& tensors,
             Storages& storages) {
  for (const TensorId tensor : tensors) {
    if (is_of_block(graph, tensor, pair)) storages.add(tensor);
  }
}

// What forward of the op has to have live, of what the block makes and its input.
std::int64_t forward_bytes(const Graph& graph, const BlockPair& pair, const Op& op) {
  Storages live(graph);
  add_all(graph, pair, op.inputs, live);
  add_all(graph, pair, op.outputs, live);
  Storages made = live;
  add_all(graph, pair, op.auxiliaries, made);
  const std::int64_t whole_bytes = made.bytes() + op.workspace_bytes;
  if (!op.sweep_workspace_bytes) return whole_bytes;
  return std::min(whole_bytes, live.bytes() + *op.sweep_workspace_bytes);
}

// Whether some Backward writes the tensor's gradient over a tensor that it saved.
bool is_gradient_placed(const Graph& graph, const Block& block, TensorId tensor) {
  for (std::int32_t i = block.begin; i < static_cast<std::int32_t>(graph.ops.size()); ++i) {
    const Op& op = graph.ops[static_cast<std::size_t>(i)];
    for (std::size_t k = 0; k < op.inputs.size(); ++k) {
      if (op.inputs[k] == tensor && op.gradient_places[k] != kNoTensor) return true;
    }
    if (i >= block.end && tensor != block.output) return false;
  }
  return false;
}

// What its Backward has to have live: what it reads of this block, and gradients.
std::int64_t backward_bytes(const Graph& graph, const BlockPair& pair, const Op& op) {
  Storages live(graph);
  add_all(graph, pair, op.saved, live);
  std::int64_t gradient_bytes = 0;
  for (const TensorId output : op.outputs) {
    const Tensor& tensor = graph.tensor(output);
    if (!tensor.has_gradient || is_gradient_placed(graph, pair.block, output)) continue;
    gradient_bytes = std::max(gradient_bytes, tensor.bytes);
  }
  return live.bytes() + gradient_bytes + op.backward_workspace_bytes;
}

}  // namespace

LowerBounds::LowerBounds(const Graph& graph, const std::vector<Block>& blocks, const Chain& chain,
                         const OpCosts& costs)
    : graph_(graph),
      blocks_(blocks),
      chain_(chain),
      costs_(costs),
      storages_(cut_storages(graph, blocks)) {
  find_instants();
}

void LowerBounds::require(std::size_t block_count, std::size_t block, std::int64_t beside_bytes) {
  Instant& instant = instants_[block_count];
  if (instant.block >= 0 && instant.beside_bytes >= beside_bytes) return;
  instant = {.block = static_cast<std::int32_t>(block), .beside_bytes = beside_bytes};
}

// For each block the largest steps of its forward and backward, beside what the blocks before it
// keep; and the start of its backward pass, when its own tensors are kept or not like theirs.
void LowerBounds::find_instants() {
  instants_.resize(blocks_.size() + 1);
  std::int64_t later_gradients_bytes = 0;
  for (std::size_t b = blocks_.size(); b-- > 0;) {
    const Block& block = blocks_[b];
    const BlockPair pair{.block = block, .begin_before = b == 0 ? 0 : blocks_[b - 1].begin};
    for (std::int32_t i = block.begin; i < block.end; ++i) {
      const Op& op = graph_.ops[static_cast<std::size_t>(i)];
      require(b, b, forward_bytes(graph_, pair, op));
      if (!op.has_backward) continue;
      require(b, b, later_gradients_bytes + backward_bytes(graph_, pair, op));
    }
    const bool is_last = b + 1 == blocks_.size();
    const TensorId output = is_last ? kNoTensor : blocks_[b + 1].input;
    const bool has_gradient = !is_last && graph_.tensor(output).has_gradient;
    const std::int64_t gradient_bytes = has_gradient ? graph_.tensor(output).bytes : 0;
    require(b + 1, b, later_gradients_bytes + gradient_bytes);
    later_gradients_bytes += chain_.blocks[b].parameter_gradient_bytes;
  }
}

std::int64_t LowerBounds::least_peak_bytes() const {
  std::int64_t most_bytes = 0;
  for (const Instant& instant : instants_) most_bytes = std::max(most_bytes, instant.beside_bytes);
  return chain_.base_bytes + most_bytes;
}

LowerBounds::Priced LowerBounds::at_price(double price) const {
  return {.price = price, .sums = cheapest_cuts(graph_, blocks_, storages_, costs_, price)};
}

double LowerBounds::room_bytes(std::size_t block_count, std::int64_t budget_bytes) const {
  return static_cast<double>(budget_bytes - chain_.base_bytes -
                             instants_[block_count].beside_bytes);
}

double LowerBounds::bound(const Priced& priced, std::size_t block_count,
                          std::int64_t budget_bytes) const {
  const double spent = priced.price * room_bytes(block_count, budget_bytes);
  return priced.sums[block_count].least * kRoundDown - spent * kRoundUp;
}

std::size_t LowerBounds::tightest(const Priced& priced, std::int64_t budget_bytes) const {
  std::size_t best = 0;
  for (std::size_t count = 1; count <= blocks_.size(); ++count) {
    if (bound(priced, count, budget_bytes) > bound(priced, best, budget_bytes)) best = count;
  }
  return best;
}

// The bound is concave in the price, and each price gives a line above it: the best price lies
// where the lines of one that keeps too much and one that keeps too little meet.
void LowerBounds::improve(std::size_t block_count, std::int64_t budget_bytes, Priced& best) const {
  constexpr int kMostSteps = 40;
  constexpr double kDearest = 1e30;
  const double room = room_bytes(block_count, budget_bytes);
  BlockCut low = at_price(0).sums[block_count];
  BlockCut high = at_price(kDearest).sums[block_count];
  // Cuts are rounded: where the dearer one seems cheaper there is no line between, and no price.
  const auto has_line = [&] { return low.bytes > high.bytes && low.cost <= high.cost; };
  for (int step = 0; step < kMostSteps && has_line(); ++step) {
    Priced priced = at_price((high.cost - low.cost) / (low.bytes - high.bytes));
    const BlockCut sum = priced.sums[block_count];
    if (bound(priced, block_count, budget_bytes) > bound(best, block_count, budget_bytes)) {
      best = std::move(priced);
    }
    BlockCut& side = sum.bytes > room ? low : high;
    if (sum.bytes == side.bytes) break;  // on the line already
    side = sum;
  }
}

CostBound LowerBounds::at(std::int64_t budget_bytes) const {
  constexpr int kMostRounds = 4;
  Priced best = at_price(0);
  // First the instant that is furthest from keeping all.
  const auto excess = [&](std::size_t count) {
    return best.sums[count].bytes - room_bytes(count, budget_bytes);
  };
  std::size_t count = 0;
  for (std::size_t i = 1; i <= blocks_.size(); ++i) {
    if (excess(i) > excess(count)) count = i;
  }
  for (int round = 0; round < kMostRounds; ++round) {
    improve(count, budget_bytes, best);
    const std::size_t next = tightest(best, budget_bytes);
    if (next == count) break;
    count = next;
  }
  const double value = std::floor(bound(best, count, budget_bytes));
  if (value <= 0) return {};
  return {.extra_cost = static_cast<std::int64_t>(value), .block = instants_[count].block};
}

}  // namespace cairn
