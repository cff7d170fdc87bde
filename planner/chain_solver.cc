#include "planner/chain_solver.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <thread>
#include <utility>

#include "graph/error.h"
#include "planner/budget_bound.h"
#include "planner/chain_items.h"
#include "planner/chain_sums.h"
#include "planner/root_hull.h"
#include "planner/slot_unit.h"

namespace cairn {
namespace {

// How many slots a chain gets when nobody says: so many that a table of all its rows is filled in
// about a second, and takes less than half a gibibyte.
constexpr std::int64_t kStateLimit = std::int64_t{1} << 25;
constexpr std::int64_t kSplitStateLimit = std::int64_t{3'000'000'000};
constexpr std::int64_t kLeastSlotLimit = 512;
constexpr std::int64_t kExactSlotLimit = 32768;
constexpr std::int64_t kRoundedSlotLimit = 4096;
constexpr std::int64_t kRootBuckets = 16384;  // where sizes are rounded
// Up to so many blocks, points that fall together lower the bound less than the hull does.
constexpr std::int64_t kBucketBoundBlocks = 64;
constexpr std::int64_t kThreadedBlocks = 64;  // fewer are solved before a second thread is up

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

// So many slots for a table of these ranges.
std::int64_t usual_slot_limit(const ChainSums& sums, const std::vector<std::int32_t>& first_equal) {
  std::int64_t rows = 1;
  std::int64_t splits = 1;
  for (std::int64_t first = 0; first < sums.region_blocks; ++first) {
    for (std::int64_t last = first; last < sums.region_blocks; ++last) {
      if (!first_equal.empty() && first_equal[sums.index(first, last)] != first) continue;
      ++rows;
      splits += last - first;
    }
  }
  return std::clamp(std::min(kStateLimit / rows, kSplitStateLimit / splits), kLeastSlotLimit,
                    kExactSlotLimit);
}

std::int64_t bucket_bytes_of(std::int64_t limit_bytes) { return limit_bytes / kRootBuckets + 1; }

int thread_count_of(const ChainSolverOptions& options, const ChainSums& sums) {
  if (options.thread_count > 0) return options.thread_count;
  if (sums.region_blocks < kThreadedBlocks) return 1;
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

NestedOptions nested_options_of(const ChainSolverOptions& options, const ChainSums& sums) {
  return {.thread_count = thread_count_of(options, sums),
          .skip_by_samples = options.skip_by_samples,
          .try_likely_splits_first = options.try_likely_splits_first};
}

}  // namespace

struct ChainSolution::Solved {
  Chain chain = {};
  ChainSums sums = {};
  std::unique_ptr<NestedTable> table = {};
  RootPoints root = {};

  void solve(std::int64_t limit_bytes, const SlotUnit& unit, bool is_exact,
             const std::vector<std::int32_t>& first_equal, const ChainSolverOptions& options) {
    table = std::make_unique<NestedTable>(chain, sums, first_equal, unit,
                                          unit.slots_within(limit_bytes),
                                          nested_options_of(options, sums));
    table->extend(sums.region_blocks, nullptr, 0);
    root = is_exact ? exact_root_points(chain, sums, *table, nullptr, 0)
                    : rounded_root_points(chain, sums, *table, limit_bytes,
                                          bucket_bytes_of(limit_bytes));
  }

  // Regions of twice as many blocks, again and again: the best plan so far says which rows of
  // longer ranges may matter. Only for sizes that are multiples of the unit.
  void solve_pruned(std::int64_t limit_bytes, const SlotUnit& unit,
                    const ChainSolverOptions& options) {
    const std::int64_t slot_count = unit.slots_within(limit_bytes);
    table = std::make_unique<NestedTable>(chain, sums, std::vector<std::int32_t>{}, unit,
                                          slot_count, nested_options_of(options, sums));
    const BudgetBound bound(chain, sums, unit, slot_count);
    std::int64_t plan_cost = kInfiniteCost;
    for (std::int64_t blocks = options.first_region_blocks;; blocks *= 2) {
      const BudgetBound* const known = plan_cost < kInfiniteCost ? &bound : nullptr;
      table->extend(blocks, known, plan_cost);
      root = exact_root_points(chain, sums, *table, known, plan_cost);
      plan_cost = std::min(plan_cost, cost_within(root.from.front(), slot_count * unit.bytes));
      if (blocks >= sums.region_blocks) return;
    }
  }
};

ChainSolution::ChainSolution(ChainSolution&&) noexcept = default;
ChainSolution& ChainSolution::operator=(ChainSolution&&) noexcept = default;
ChainSolution::~ChainSolution() = default;

ChainSolution::ChainSolution(const Chain& chain, std::int64_t largest_budget_bytes,
                             const ChainSolverOptions& options)
    : solved_(std::make_unique<Solved>()) {
  CAIRN_CHECK(!chain.blocks.empty(), "a chain without blocks");
  solved_->chain = chain;
  solved_->sums = sum_chain(chain);
  const ChainSums& sums = solved_->sums;
  if (largest_budget_bytes < chain.base_bytes) return;
  // Nothing is cheaper than to keep everything.
  const std::int64_t limit_bytes =
      std::min(largest_budget_bytes - chain.base_bytes, keep_all_bytes(chain, sums));
  std::vector<std::int32_t> first_equal;
  if (options.share_equal_rows) first_equal = first_equal_ranges(chain, sums);
  const std::int64_t slot_limit =
      options.slot_limit > 0 ? options.slot_limit : usual_slot_limit(sums, first_equal);
  SlotUnit unit = {.bytes = common_divisor_bytes(chain)};
  statistics_.is_exact = limit_bytes / unit.bytes <= slot_limit;
  if (!statistics_.is_exact) {
    const std::int64_t slots =
        options.slot_limit > 0 ? slot_limit : std::min(slot_limit, kRoundedSlotLimit);
    unit.bytes = choose_unit_bytes(chain, limit_bytes, slots);
  }
  if (statistics_.is_exact && !options.is_whole_frontier && options.prune_by_budget &&
      first_equal.empty()) {
    solved_->solve_pruned(limit_bytes, unit, options);
  } else {
    std::jthread lower;  // the two solves have nothing to do with each other
    if (!statistics_.is_exact && options.has_lower_bound) {
      const auto solve = [&] { solve_lower(limit_bytes, unit.bytes, first_equal, options); };
      if (thread_count_of(options, sums) > 1) {
        lower = std::jthread(solve);
      } else {
        solve();
      }
    }
    solved_->solve(limit_bytes, unit, statistics_.is_exact, first_equal, options);
  }
  statistics_.unit_bytes = unit.bytes;
  statistics_.slot_count = solved_->table->slot_count();
  statistics_.nested = solved_->table->statistics();
  statistics_.root_split_count = solved_->root.split_count;
  points_ = solved_->root.from.front();
  for (ChainPoint& point : points_) point.need_bytes += chain.base_bytes;
}

void ChainSolution::solve_lower(std::int64_t limit_bytes, std::int64_t unit_bytes,
                                const std::vector<std::int32_t>& first_equal,
                                const ChainSolverOptions& options) {
  const Chain& chain = solved_->chain;
  const ChainSums& sums = solved_->sums;
  const SlotUnit unit = {.bytes = unit_bytes, .rounds_up = false};
  NestedTable table(chain, sums, first_equal, unit, unit.slots_within(limit_bytes),
                    nested_options_of(options, sums));
  table.extend(sums.region_blocks, nullptr, 0);
  lower_hull_ = root_hull(chain, sums, table);
  if (sums.region_blocks > kBucketBoundBlocks) return;
  lower_points_ = rounded_root_points(chain, sums, table, limit_bytes, bucket_bytes_of(limit_bytes))
                      .from.front();
}

std::vector<ChainItem> ChainSolution::items_of(std::int64_t budget_bytes) const {
  CAIRN_CHECK(!points_.empty() && points_.front().need_bytes <= budget_bytes,
              "items of a budget that nothing fits in");
  const auto above = std::upper_bound(
      points_.begin(), points_.end(), budget_bytes,
      [](std::int64_t budget, const ChainPoint& point) { return budget < point.need_bytes; });
  return items_of_choices(solved_->chain, solved_->sums, *solved_->table, solved_->root,
                          std::prev(above)->need_bytes - solved_->chain.base_bytes);
}

std::int64_t ChainSolution::lower_bound(std::int64_t budget_bytes) const {
  if (statistics_.is_exact) return cost_within(points_, budget_bytes);
  const std::int64_t bytes = budget_bytes - solved_->chain.base_bytes;
  if (bytes < 0) return kInfiniteCost;
  std::int64_t bound = 0;
  if (!lower_hull_.empty()) bound = hull_cost_within(lower_hull_, bytes);
  if (!lower_points_.empty()) bound = std::max(bound, cost_within(lower_points_, bytes));
  return bound;
}

std::int64_t ChainSolution::least_need_bytes() const {
  return least_chain_bytes(solved_->chain, solved_->sums);
}

ChainSolution solve_chain(const Chain& chain, std::int64_t largest_budget_bytes,
                          const ChainSolverOptions& options) {
  return {chain, largest_budget_bytes, options};
}

std::int64_t cost_of_items(const Chain& chain, const std::vector<ChainItem>& items) {
  std::int64_t cost = 0;
  std::vector<const ChainItem*> left;
  for (const ChainItem& item : items) left.push_back(&item);
  while (!left.empty()) {
    const ChainItem& item = *left.back();
    left.pop_back();
    if (item.kind == ChainItem::Kind::kOption) cost += chain.options[at(item.option)].extra_cost;
    if (item.kind != ChainItem::Kind::kRegion) continue;
    for (std::int32_t i = item.begin; i < item.end - 1; ++i) {
      cost += chain.blocks[at(i)].sweep_cost;
    }
    cost += chain.blocks[at(item.end - 1)].last_cost;
    for (const ChainItem& inner : item.inner) left.push_back(&inner);
  }
  return cost;
}

}  // namespace cairn
