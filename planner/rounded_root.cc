#include <algorithm>
#include <array>
#include <cstddef>
#include <limits>
#include <utility>

#include "planner/root_points.h"

namespace cairn {
namespace {

constexpr float kNever = std::numeric_limits<float>::infinity();

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

constexpr double kHalf = 0.5;
constexpr std::int64_t kPieces = 8;  // of a chunk

// A region of the root and what is behind it, by budget.
struct RegionSum {
  const CostRow& row;
  const SlotUnit& unit;
  const ChainPoints& behind;
  std::int64_t input_bytes = 0;
  std::int64_t later_bytes = 0;  // gradients that are there when it is recomputed
  std::int64_t once_cost = 0;

  std::int64_t slots(std::int64_t bytes) const {
    return std::min<std::int64_t>(row.high, unit.slots_within(bytes - later_bytes));
  }
  std::int64_t cost(std::int64_t bytes) const {
    return once_cost + row.costs[slots(bytes) - row.low] + cost_within(behind, bytes - input_bytes);
  }
};

class RoundedRoot {
 public:
  RoundedRoot(const Chain& chain, const ChainSums& sums, const NestedTable& table,
              std::int64_t limit_bytes, std::int64_t bucket_bytes);
  RootPoints points() && { return {.from = std::move(points_), .split_count = split_count_}; }

 private:
  void solve(std::int64_t first);
  void offer(std::int64_t need_bytes, std::int64_t cost);
  void offer_kept(const KeptChoice& kept);
  void offer_regions(std::int64_t first);
  std::int64_t offer_region(std::int64_t first, std::int64_t end, std::int64_t begin_bytes,
                            std::int64_t end_bytes, std::int64_t known_cost);
  void offer_piece(const RegionSum& region, std::int64_t begin_bytes, std::int64_t end_bytes);
  void collect(std::int64_t first);
  void add_samples(std::int64_t first);
  std::int64_t chunk_begin_bytes(std::int64_t chunk) const;
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
};

RoundedRoot::RoundedRoot(const Chain& chain, const ChainSums& sums, const NestedTable& table,
                         std::int64_t limit_bytes, std::int64_t bucket_bytes)
    : chain_(chain),
      sums_(sums),
      table_(table),
      block_count_(static_cast<std::int64_t>(chain.blocks.size())),
      limit_bytes_(limit_bytes),
      buckets_per_byte_(1.0 / static_cast<double>(bucket_bytes)),
      is_optimistic_(!table.unit().rounds_up),
      buckets_(at(limit_bytes / bucket_bytes + 2)),
      points_(at(block_count_ + 1)),
      samples_(at((block_count_ + 1) * kChunks), kNever) {
  points_.back() = {{.need_bytes = 0, .extra_cost = 0}};
  add_samples(block_count_);
  for (std::int64_t first = block_count_ - 1; first >= 0; --first) solve(first);
}

std::int64_t RoundedRoot::parameter_gradient_bytes(std::int64_t end) const {
  return sums_.parameter_gradient_bytes(end, block_count_);
}

std::int64_t RoundedRoot::chunk_begin_bytes(std::int64_t chunk) const {
  return table_.unit().bytes_of(chunk * table_.chunk_slots());
}

void RoundedRoot::offer(std::int64_t need_bytes, std::int64_t cost) {
  // Half a bucket aside, so that needs that are multiples of one are never between two.
  ChainPoint& bucket = buckets_[static_cast<std::size_t>(
      static_cast<double>(need_bytes) * buckets_per_byte_ + kHalf)];
  if (is_optimistic_) {
    bucket.need_bytes = std::min(bucket.need_bytes, need_bytes);
    bucket.extra_cost = std::min(bucket.extra_cost, cost);
  } else if (cost < bucket.extra_cost ||
             (cost == bucket.extra_cost && need_bytes < bucket.need_bytes)) {
    bucket = {.need_bytes = need_bytes, .extra_cost = cost};
  }
}

void RoundedRoot::offer_kept(const KeptChoice& kept) {
  for (const ChainPoint& point : points_[at(kept.end)]) {
    const std::int64_t need_bytes = std::max(kept.peak_bytes, point.need_bytes + kept.held_bytes);
    if (need_bytes > limit_bytes_) return;
    offer(need_bytes, point.extra_cost + kept.extra_cost);
  }
}

void RoundedRoot::solve(std::int64_t first) {
  std::fill(buckets_.begin(), buckets_.end(),
            ChainPoint{.need_bytes = INT64_MAX, .extra_cost = kInfiniteCost});
  for (const KeptChoice& kept : kept_choices(chain_, sums_, first)) offer_kept(kept);
  collect(first);
  if (first < sums_.region_blocks) {
    offer_regions(first);
    collect(first);
  }
  add_samples(first);
}

void RoundedRoot::offer_regions(std::int64_t first) {
  // Just above the cost at the begin of each chunk: what a region must be below to be of use.
  std::array<float, kChunks> limits = {};
  std::array<std::int64_t, kChunks + 1> least = {};
  for (int chunk = 0; chunk < kChunks; ++chunk) {
    least[at(chunk)] = cost_within(points_[at(first)], chunk_begin_bytes(chunk));
  }
  const auto update_limits = [&] {
    for (int chunk = 0; chunk < kChunks; ++chunk) {
      if (chunk > 0) least[at(chunk)] = std::min(least[at(chunk)], least[at(chunk - 1)]);
      limits[at(chunk)] = chunk_begin_bytes(chunk) > limit_bytes_ ? -kNever
                          : least[at(chunk)] == kInfiniteCost
                              ? kNever
                              : static_cast<float>(least[at(chunk)]) * 1.000001F;
    }
  };
  update_limits();
  const SplitSamples samples = {.left = table_.left_samples(first),
                                .right = samples_.data() + (first + 1) * kChunks,
                                .costs = sums_.once_cost_before.data() + first + 1,
                                .less_cost = sums_.sweep_cost_before[at(first)]};
  const std::int64_t count = std::min(sums_.region_blocks - first, table_.extended_block_count());
  for (std::int64_t i = 0; i < count; ++i) {
    std::uint32_t chunks = 0;
    i = find_promising(samples, limits.data(), i, count, chunks);
    if (i == count) return;
    ++split_count_;
    for (; chunks != 0; chunks &= chunks - 1) {
      const int chunk = __builtin_ctz(chunks);
      const std::int64_t end_bytes = std::min(limit_bytes_ + 1, chunk_begin_bytes(chunk + 1));
      const std::int64_t cost =
          offer_region(first, first + 1 + i, chunk_begin_bytes(chunk), end_bytes, least[at(chunk)]);
      least[at(chunk + 1)] = std::min(least[at(chunk + 1)], cost);
    }
    update_limits();
  }
}

// For budgets in [begin_bytes, end_bytes), where something costs `known_cost` at the begin. Gives
// the cost at the end.
std::int64_t RoundedRoot::offer_region(std::int64_t first, std::int64_t end,
                                       std::int64_t begin_bytes, std::int64_t end_bytes,
                                       std::int64_t known_cost) {
  const CostRow& row = table_.row(first, end - 1);
  const ChainPoints& behind = points_[at(end)];
  if (row.is_empty() || behind.empty()) return kInfiniteCost;
  const RegionSum region = {.row = row,
                            .unit = table_.unit(),
                            .behind = behind,
                            .input_bytes = chain_.blocks[at(first)].input_bytes,
                            .later_bytes = parameter_gradient_bytes(end),
                            .once_cost = sums_.once_cost(first, end - 1)};
  begin_bytes = std::max({begin_bytes, sums_.sweep_peak_bytes(first, end - 1),
                          behind.front().need_bytes + region.input_bytes,
                          table_.unit().bytes_of(row.low) + region.later_bytes});
  if (begin_bytes >= end_bytes) return kInfiniteCost;
  // In pieces, of which those are left out that are no better at their ends than what is known at
  // their begins.
  const std::int64_t end_cost = region.cost(end_bytes - 1);
  known_cost = std::min(known_cost, cost_within(points_[at(first)], begin_bytes));
  if (end_cost >= known_cost) return end_cost;
  const std::int64_t piece_bytes = (end_bytes - begin_bytes) / kPieces + 1;
  for (std::int64_t begin = begin_bytes; begin < end_bytes; begin += piece_bytes) {
    const std::int64_t piece_end = std::min(begin + piece_bytes, end_bytes);
    const std::int64_t cost = region.cost(piece_end - 1);
    known_cost = std::min(known_cost, cost_within(points_[at(first)], begin));
    if (cost < known_cost) offer_piece(region, begin, piece_end);
    known_cost = std::min(known_cost, cost);
  }
  return end_cost;
}

void RoundedRoot::offer_piece(const RegionSum& region, std::int64_t begin_bytes,
                              std::int64_t end_bytes) {
  const CostRow& row = region.row;
  const ChainPoints& behind = region.behind;
  std::int64_t bytes = begin_bytes;
  auto point = at(last_within(behind, bytes - region.input_bytes));
  std::int64_t slots = region.slots(bytes);
  while (bytes < end_bytes) {
    const std::int64_t recompute_cost = row.costs[slots - row.low];
    offer(bytes, behind[point].extra_cost + region.once_cost + recompute_cost);
    const std::int64_t next_point =
        point + 1 < behind.size() ? behind[point + 1].need_bytes + region.input_bytes : end_bytes;
    std::int64_t next_slots = slots + 1;
    while (next_slots < row.high && row.costs[next_slots - row.low] == recompute_cost) {
      ++next_slots;
    }
    const std::int64_t next_slot =
        next_slots <= row.high ? region.unit.bytes_of(next_slots) + region.later_bytes : end_bytes;
    bytes = std::min(next_point, next_slot);
    if (next_point == bytes) ++point;
    if (next_slot == bytes) slots = next_slots;
  }
}

void RoundedRoot::collect(std::int64_t first) {
  ChainPoints& points = points_[at(first)];
  points.clear();
  std::int64_t least = kInfiniteCost;
  for (const ChainPoint& bucket : buckets_) {
    if (bucket.extra_cost >= least) continue;
    least = bucket.extra_cost;
    points.push_back(bucket);
  }
}

void RoundedRoot::add_samples(std::int64_t first) {
  for (int chunk = 0; chunk < kChunks; ++chunk) {
    const std::int64_t cost = cost_within(points_[at(first)], chunk_begin_bytes(chunk + 1) - 1);
    if (cost < kInfiniteCost) samples_[at(first * kChunks + chunk)] = static_cast<float>(cost);
  }
}

}  // namespace

RootPoints rounded_root_points(const Chain& chain, const ChainSums& sums, const NestedTable& table,
                               std::int64_t limit_bytes, std::int64_t bucket_bytes) {
  return RoundedRoot(chain, sums, table, limit_bytes, bucket_bytes).points();
}

}  // namespace cairn
