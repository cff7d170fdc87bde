#pragma once

#include <cstdint>
#include <vector>

#include "planner/budget_bound.h"
#include "planner/chain.h"
#include "planner/chain_sums.h"
#include "planner/nested_table.h"

// The root of a chain's plan, from each block to the end: the least cost of keeping blocks, taking
// options and making regions, for all budgets at once.

namespace cairn {

struct ChainPoint {
  std::int64_t need_bytes = 0;  // the least budget that gives this cost
  std::int64_t extra_cost = 0;
};

// By rising need and falling cost.
using ChainPoints = std::vector<ChainPoint>;

// The last point within `bytes`, or -1; its cost, or kInfiniteCost.
std::int64_t last_within(const ChainPoints& points, std::int64_t bytes);
std::int64_t cost_within(const ChainPoints& points, std::int64_t bytes);

struct RootPoints {
  std::vector<ChainPoints> from = {};  // of the blocks from each on, above what is held before
  std::int64_t split_count = 0;        // regions that were looked at, in part at least
};

// Where all sizes are multiples of the table's unit. With a bound, points are left out that cannot
// be part of a plan as cheap as `plan_cost`. Regions have as many blocks as the table has.
RootPoints exact_root_points(const Chain& chain, const ChainSums& sums, const NestedTable& table,
                             const BudgetBound* bound, std::int64_t plan_cost);

// Where they are not: needs up to `limit_bytes` are counted in bytes, and only the recompute of a
// region comes in slots, so that rounding does not add up over the blocks of the root. Needs are
// told apart down to `bucket_bytes`: of those that fall together the cheapest stays, or where the
// table's unit rounds down, the least cost with the least need.
RootPoints rounded_root_points(const Chain& chain, const ChainSums& sums, const NestedTable& table,
                               std::int64_t limit_bytes, std::int64_t bucket_bytes);

struct RootChoice {
  enum class Kind { kKeep, kOption, kRegion };
  Kind kind = Kind::kKeep;
  std::int64_t end = 0;              // the block behind it; 0: nothing is possible
  std::int64_t option = -1;          // index in Chain::options
  std::int64_t left_slots = 0;       // of a region's recompute
  std::int64_t left_over_bytes = 0;  // for what is behind
};

// The cheapest for the blocks from `first` on, within `bytes`: to keep, then the options, then the
// shortest region.
RootChoice best_root_choice(const Chain& chain, const ChainSums& sums, const NestedTable& table,
                            const RootPoints& points, std::int64_t first, std::int64_t bytes);

}  // namespace cairn
