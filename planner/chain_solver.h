#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "planner/chain.h"
#include "planner/nested_table.h"
#include "planner/root_points.h"

// The cheapest nested-region plan of a chain of blocks, for every budget up to one: of all ways to
// keep blocks, to take options and to nest regions. Exact in bytes where the sizes have a common
// divisor that leaves few slots; else sizes are rounded up, and a second solve with sizes rounded
// down says how much that can cost. A plan never needs more than its point says.

namespace cairn {

struct ChainSolverOptions {
  // What affects the answer.
  std::int64_t slot_limit = 0;  // memory in at most so many slots; 0: as many as are quickly solved
  bool is_whole_frontier = true;  // else only the cheapest plan within the budget is certain
  bool has_lower_bound = true;    // where sizes were rounded: solve once more, for a certificate

  // What affects the speed only.
  int thread_count = 0;  // 0: as many as the machine has
  bool share_equal_rows = true;
  bool skip_by_samples = true;
  bool try_likely_splits_first = true;
  bool prune_by_budget = true;  // where one budget is asked for
  std::int64_t first_region_blocks =
      8;  // at most, in the first search for some plan; doubled after
};

// Blocks [begin, end) of a plan.
struct ChainItem {
  enum class Kind { kKept, kOption, kRegion };
  Kind kind = Kind::kKept;
  std::int32_t begin = 0;
  std::int32_t end = 0;
  std::int32_t option = -1;           // kOption: index in Chain::options
  std::vector<ChainItem> inner = {};  // kRegion: kept blocks and regions
};

struct ChainStatistics {
  RowStatistics nested = {};
  std::int64_t root_split_count = 0;
  std::int64_t unit_bytes = 1;
  std::int64_t slot_count = 0;
  bool is_exact = true;  // nothing was rounded
};

class ChainSolution {
 public:
  // The chain and the sums outlive the solution's solving only.
  ChainSolution(const Chain& chain, std::int64_t largest_budget_bytes,
                const ChainSolverOptions& options);
  ChainSolution(ChainSolution&&) noexcept;
  ChainSolution& operator=(ChainSolution&&) noexcept;
  ~ChainSolution();

  // The frontier up to the largest budget, by rising need; empty when nothing fits. Where only one
  // budget was asked for, only the last is certain to be the best.
  const ChainPoints& points() const { return points_; }
  // The plan of the last point within the budget, which there must be. It may be cheaper than the
  // point says where sizes were rounded.
  std::vector<ChainItem> items_of(std::int64_t budget_bytes) const;
  // No choice of regions and options costs less within the budget; kInfiniteCost when it is certain
  // that none fits.
  std::int64_t lower_bound(std::int64_t budget_bytes) const;
  // The least budget that any choice fits in.
  std::int64_t least_need_bytes() const;
  const ChainStatistics& statistics() const { return statistics_; }

 private:
  struct Solved;

  void solve_lower(std::int64_t limit_bytes, std::int64_t unit_bytes,
                   const std::vector<std::int32_t>& first_equal, const ChainSolverOptions& options);

  std::unique_ptr<Solved> solved_;
  ChainPoints points_ = {};
  // Of sizes rounded down, above the chain's base; empty where nothing was rounded.
  ChainPoints lower_hull_ = {};
  ChainPoints lower_points_ = {};
  ChainStatistics statistics_ = {};
};

// Bytes and costs are not negative. Plans that cost kInfiniteCost or more count as impossible.
ChainSolution solve_chain(const Chain& chain, std::int64_t largest_budget_bytes,
                          const ChainSolverOptions& options = {});

// What a plan's recomputes cost: regions and options.
std::int64_t cost_of_items(const Chain& chain, const std::vector<ChainItem>& items);

}  // namespace cairn
