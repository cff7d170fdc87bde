#pragma once

#include <cstdint>
#include <vector>

#include "graph/graph.h"
#include "planner/block_cut.h"
#include "planner/blocks.h"
#include "planner/chain.h"
#include "planner/op_costs.h"

// What no plan does better than, whatever it keeps, drops and makes again, and when.
//
// Take one instant of the step. What earlier blocks made and a Backward has yet to read is either
// live then, or made again behind it by its op, whose inputs are live or made again in turn. What
// is live fits into the budget beside what is there in any plan: what is live throughout, gradients
// of later parameters, what the step of that instant itself reads and makes.
//
// For a price a byte, the cheapest choice of each block is a least cut between keeping and running
// again. With f(price) the sum of these, f(price) - price * (bytes left) is a bound for any price
// (Lagrangian duality); the best price is searched.

namespace cairn {

struct CostBound {
  std::int64_t extra_cost = 0;  // of one micro-batch
  std::int32_t block = -1;      // the instant is in its forward or backward pass; -1: any will do
};

class LowerBounds {
 public:
  // `chain` is that of the blocks. Keeps references to all.
  LowerBounds(const Graph& graph, const std::vector<Block>& blocks, const Chain& chain,
              const OpCosts& costs);

  // No plan at all has a smaller peak.
  std::int64_t least_peak_bytes() const;

  // For a budget of at least the least peak.
  CostBound at(std::int64_t budget_bytes) const;

 private:
  // What is live beside what the first so many blocks keep.
  struct Instant {
    std::int32_t block = -1;
    std::int64_t beside_bytes = 0;
  };
  // One price: the cuts of the first blocks summed, by block count.
  struct Priced {
    double price = 0;
    std::vector<BlockCut> sums = {};
  };
  void find_instants();
  void require(std::size_t block_count, std::size_t block, std::int64_t beside_bytes);
  Priced at_price(double price) const;
  double room_bytes(std::size_t block_count, std::int64_t budget_bytes) const;
  double bound(const Priced& priced, std::size_t block_count, std::int64_t budget_bytes) const;
  std::size_t tightest(const Priced& priced, std::int64_t budget_bytes) const;
  void improve(std::size_t block_count, std::int64_t budget_bytes, Priced& best) const;

  const Graph& graph_;
  const std::vector<Block>& blocks_;
  const Chain& chain_;
  const OpCosts& costs_;
  CutStorages storages_ = {};
  std::vector<Instant> instants_ = {};  // by block count
};

}  // namespace cairn
