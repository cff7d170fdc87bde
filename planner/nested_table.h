#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "planner/budget_bound.h"
#include "planner/chain.h"
#include "planner/chain_sums.h"
#include "planner/row_worker.h"
#include "planner/slot_unit.h"

// The least cost of the recompute of every range of blocks, with so many slots of memory above what
// is held before the range (the recurrence of Beaumont et al., 2019, for blocks whose sizes were
// measured). Costs are what comes on top of `once_cost`: the same block, again.
//
//   row(first, last):   infinite | low ... falling ... high | as at high
//                       ---------+------------------------+---------------> slots
//
// The recompute of [first, last] either keeps its first block, or wraps a region [first, split)
// that is recomputed once more. Rows are computed from short ranges to long ones, several at a time
// on several threads; the numbers do not depend on how many.

namespace cairn {

struct NestedOptions {
  int thread_count = 1;
  bool skip_by_samples = true;
  bool try_likely_splits_first = true;
};

struct NestedSplit {
  bool keeps_first = false;  // else the region [first, split) comes first
  std::int64_t split = 0;
  std::int64_t left_slots = 0;   // of the region's recompute
  std::int64_t right_slots = 0;  // of the rest's
};

class NestedTable {
 public:
  // For up to `slot_count` slots. The chain and its sums outlive the table. `first_equal` is as
  // first_equal_ranges gives it; a range that is not the first of its kind shares that one's row.
  NestedTable(const Chain& chain, const ChainSums& sums, std::vector<std::int32_t> first_equal,
              const SlotUnit& unit, std::int64_t slot_count, const NestedOptions& options);
  ~NestedTable();
  NestedTable(const NestedTable&) = delete;
  NestedTable& operator=(const NestedTable&) = delete;

  // All rows of ranges of up to `block_count` blocks. With a bound, rows and parts of rows are left
  // out that cannot be part of a plan as cheap as `plan_cost`.
  void extend(std::int64_t block_count, const BudgetBound* bound, std::int64_t plan_cost);
  std::int64_t extended_block_count() const { return extended_block_count_; }

  const CostRow& row(std::int64_t first, std::int64_t last) const {
    return rows_[sums_.index(first, last)];
  }
  // The best choice for a range of two or more blocks that is possible within `slots`: to keep the
  // first block rather than a region, then the shortest region.
  NestedSplit best_split(std::int64_t first, std::int64_t last, std::int64_t slots) const;

  // Of the rows (first, first), (first, first + 1), ...: kChunks each, and how wide a chunk is.
  const float* left_samples(std::int64_t first) const {
    return left_samples_.get() + sums_.index(first, first) * kChunks;
  }
  std::int64_t chunk_slots() const { return chunk_slots_; }
  const SlotUnit& unit() const { return unit_; }
  std::int64_t slot_count() const { return slot_count_; }
  RowStatistics statistics() const;

 private:
  struct Problem;  // one row while it is computed

  struct Band {  // ranges of [begin, end) blocks beyond the first, and what prunes them
    std::int64_t begin = 0;
    std::int64_t end = 0;
    const BudgetBound* bound = nullptr;
    std::int64_t plan_cost = 0;
  };

  void fill_tiles(const Band& band);
  void fill_shared(const Band& band);
  void fill_tile(RowWorker& worker, const Band& band, std::int64_t row_tile,
                 std::int64_t column_tile);
  void compute_row(RowWorker& worker, const Band& band, std::int64_t first, std::int64_t last);
  void keep_first(const Problem& problem, RowWorker& worker) const;
  void try_splits(const Problem& problem, RowWorker& worker) const;
  void try_split_range(const Problem& problem, RowWorker& worker, std::int64_t begin,
                       std::int64_t end) const;
  void apply_split(const Problem& problem, RowWorker& worker, std::int64_t split,
                   std::uint32_t chunks) const;
  void store_row(const Problem& problem, RowWorker& worker);
  void store_samples(std::int64_t first, std::int64_t last);
  void copy_row(std::int64_t first, std::int64_t last);
  std::int64_t split_threshold(std::int64_t first, std::int64_t last, std::int64_t split) const;
  std::int64_t keep_threshold(std::int64_t first, std::int64_t last) const;
  std::int64_t left_shift(std::int64_t split, std::int64_t last) const;
  float* right_samples(std::int64_t last) const {
    return right_samples_.get() + last * (last + 1) / 2 * kChunks;
  }

  const Chain& chain_;
  const ChainSums& sums_;
  SlotUnit unit_ = {};
  std::int64_t slot_count_ = 0;
  std::int64_t chunk_slots_ = 1;
  NestedOptions options_ = {};
  std::int64_t extended_block_count_ = 0;
  std::vector<std::int64_t> input_slots_ = {};
  std::vector<std::int64_t> held_slots_ = {};
  std::vector<std::int32_t> first_equal_ = {};
  std::vector<CostRow> rows_ = {};
  std::vector<std::int32_t> likely_splits_ = {};  // two for each row, or 0
  // Twice, so that the splits of a row have theirs side by side; left unset until computed.
  std::unique_ptr<float[]> left_samples_ = {};
  std::unique_ptr<float[]> right_samples_ = {};
  std::vector<std::unique_ptr<RowWorker>> workers_;
};

}  // namespace cairn
