#pragma once

#include <cstdint>
#include <vector>

#include "planner/chain.h"
#include "planner/chain_sums.h"
#include "planner/nested_table.h"

// The root of a chain's plan, from each block to the end: which blocks to keep, which options and
// which regions to take, for all budgets at once. What a choice needs is counted in bytes; only the
// recompute of a region comes in the slots of the nested table.

namespace cairn {

struct ChainPoint {
  std::int64_t need_bytes = 0;  // the least budget that gives this cost
  std::int64_t extra_cost = 0;
};

// By rising need and falling cost.
using ChainPoints = std::vector<ChainPoint>;

// The cost within `bytes`, or kInfiniteCost.
std::int64_t cost_within(const ChainPoints& points, std::int64_t bytes);

struct RootChoice {
  enum class Kind { kKeep, kOption, kRegion };
  Kind kind = Kind::kKeep;
  std::int64_t end = 0;              // the block behind it
  std::int64_t option = 0;           // index in Chain::options
  std::int64_t left_slots = 0;       // of a region's recompute
  std::int64_t left_over_bytes = 0;  // for what is behind
};

class RootFrontier {
 public:
  // Of plans that need at most `limit_bytes` above the chain's base, with regions of as many blocks
  // as the table has. Needs are told apart down to `bucket_bytes`: of those that fall together, the
  // cheapest stays, or where the table's unit rounds down, the least cost with the least need.
  RootFrontier(const Chain& chain, const ChainSums& sums, const NestedTable& table,
               std::int64_t limit_bytes, std::int64_t bucket_bytes);

  // Of blocks from `first` on, above what is held before it.
  const ChainPoints& points(std::int64_t first) const;
  // The cheapest for blocks from `first` on; to keep, then the options, then the shortest region.
  RootChoice best_choice(std::int64_t first, std::int64_t bytes) const;
  std::int64_t split_count() const { return split_count_; }

 private:
  void solve(std::int64_t first);
  void offer(std::int64_t need_bytes, std::int64_t cost);
  void offer_kept(std::int64_t end, std::int64_t held_bytes, std::int64_t peak_bytes,
                  std::int64_t cost);
  void offer_regions(std::int64_t first);
  std::int64_t offer_region(std::int64_t first, std::int64_t end, std::int64_t begin_bytes,
                            std::int64_t end_bytes);
  void collect(std::int64_t first);
  void add_samples(std::int64_t first);
  std::int64_t chunk_begin_bytes(std::int64_t chunk) const;
  std::int64_t block_peak_bytes(std::int64_t first) const;
  std::int64_t option_peak_bytes(const KeepOption& option) const;
  std::int64_t parameter_gradient_bytes(std::int64_t end) const;

  const Chain& chain_;
  const ChainSums& sums_;
  const NestedTable& table_;
  std::int64_t block_count_ = 0;
  std::int64_t limit_bytes_ = 0;
  double buckets_per_byte_ = 1;
  bool is_optimistic_ = false;
  std::int64_t split_count_ = 0;
  std::vector<ChainPoint> buckets_ = {};
  std::vector<ChainPoints> points_ = {};
  std::vector<float> samples_ = {};  // of points_, for the chunks of the table
  std::vector<std::vector<std::int64_t>> options_from_ = {};
};

}  // namespace cairn
