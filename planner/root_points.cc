#include "planner/root_points.h"

#include <algorithm>
#include <cstddef>

namespace cairn {
namespace {

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

ChainPoints points_of(const CostRow& row, std::int64_t unit_bytes) {
  ChainPoints points;
  for (std::int64_t slots = row.low; slots <= row.high; ++slots) {
    const std::int64_t cost = row.costs[slots - row.low];
    if (!points.empty() && points.back().extra_cost == cost) continue;
    points.push_back({.need_bytes = slots * unit_bytes, .extra_cost = cost});
  }
  return points;
}

class ExactRoot {
 public:
  ExactRoot(const Chain& chain, const ChainSums& sums, const NestedTable& table)
      : chain_(chain),
        sums_(sums),
        table_(table),
        rows_(chain.blocks.size() + 1),
        samples_((chain.blocks.size() + 1) * kChunks) {
    worker_.best.resize(at(table.slot_count() + 1));
  }

  void solve_end() {
    worker_.start(table_.slot_count(), 0, table_.chunk_slots());
    std::fill(worker_.best.begin(), worker_.best.end(), 0);
    finish(static_cast<std::int64_t>(chain_.blocks.size()));
  }

  void solve(std::int64_t first, const BudgetBound* bound, std::int64_t plan_cost) {
    const std::int64_t slot_count = table_.slot_count();
    std::int64_t most_cost = kInfiniteCost - 1;
    if (bound != nullptr) most_cost = plan_cost - bound->cost_before(first, slot_count);
    if (most_cost < 0) return finish_empty(first);
    worker_.start(slot_count, most_cost, table_.chunk_slots());
    take_kept(first);
    for (int chunk = 0; bound != nullptr && chunk < kChunks; ++chunk) {
      const std::int64_t held = slot_count - chunk * table_.chunk_slots();
      if (held < 0) break;
      const std::int64_t left_over = plan_cost - bound->cost_before(first, held);
      worker_.limit_chunk(chunk, std::max<std::int64_t>(0, left_over + 1));
    }
    take_regions(first);
    if (bound != nullptr) {  // where a chunk's limit left something out, what less memory gives
      std::vector<std::int64_t>& best = worker_.best;
      for (std::size_t i = 1; i < best.size(); ++i) best[i] = std::min(best[i], best[i - 1]);
    }
    finish(first);
  }

  RootPoints points() const {
    RootPoints points = {.split_count = worker_.statistics.split_count};
    for (const CostRow& row : rows_) points.from.push_back(points_of(row, table_.unit().bytes));
    return points;
  }

 private:
  void take_kept(std::int64_t first) {
    for (const KeptChoice& kept : kept_choices(chain_, sums_, first)) {
      const CostRow& behind = rows_[at(kept.end)];
      if (behind.is_empty()) continue;
      const ShiftedRow shifted = {.row = behind, .shift = table_.unit().slots_of(kept.held_bytes)};
      worker_.take_row(shifted, kept.extra_cost,
                       std::max(shifted.low(), table_.unit().slots_of(kept.peak_bytes)),
                       table_.slot_count() + 1);
    }
    worker_.update_limits(0, kChunks, 0);
  }

  void take_regions(std::int64_t first) {
    const SplitSamples samples = {.left = table_.left_samples(first),
                                  .right = samples_.data() + at(first + 1) * kChunks,
                                  .costs = sums_.once_cost_before.data() + first + 1,
                                  .less_cost = sums_.sweep_cost_before[at(first)]};
    const std::int64_t count = std::min(sums_.region_blocks - first, table_.extended_block_count());
    for (std::int64_t i = 0; i < count; ++i) {
      std::uint32_t chunks = 0;
      i = find_promising(samples, worker_.limits.data(), i, count, chunks);
      if (i < count) take_region(first, first + 1 + i, chunks);
    }
  }

  void take_region(std::int64_t first, std::int64_t end, std::uint32_t chunks) {
    const CostRow& row = table_.row(first, end - 1);
    const CostRow& behind = rows_[at(end)];
    if (row.is_empty() || behind.is_empty()) return;
    const SlotUnit& unit = table_.unit();
    const auto n = static_cast<std::int64_t>(chain_.blocks.size());
    worker_.take_chunks(
        {.row = row, .shift = unit.slots_of(sums_.parameter_gradient_bytes(end, n))},
        {.row = behind, .shift = unit.slots_of(chain_.blocks[at(first)].input_bytes)},
        sums_.once_cost(first, end - 1), unit.slots_of(sums_.sweep_peak_bytes(first, end - 1)),
        chunks, static_cast<std::int32_t>(end));
  }

  void finish(std::int64_t first) {
    rows_[at(first)] = worker_.finish();
    write_samples(rows_[at(first)], table_.chunk_slots(), &samples_[at(first) * kChunks]);
  }

  void finish_empty(std::int64_t first) {
    write_samples({}, table_.chunk_slots(), &samples_[at(first) * kChunks]);
  }

  const Chain& chain_;
  const ChainSums& sums_;
  const NestedTable& table_;
  RowWorker worker_ = {};
  std::vector<CostRow> rows_ = {};
  std::vector<float> samples_ = {};
};

}  // namespace

std::int64_t last_within(const ChainPoints& points, std::int64_t bytes) {
  const auto above = std::upper_bound(
      points.begin(), points.end(), bytes,
      [](std::int64_t limit, const ChainPoint& point) { return limit < point.need_bytes; });
  return above - points.begin() - 1;
}

std::int64_t cost_within(const ChainPoints& points, std::int64_t bytes) {
  const std::int64_t i = last_within(points, bytes);
  return i < 0 ? kInfiniteCost : points[at(i)].extra_cost;
}

RootPoints exact_root_points(const Chain& chain, const ChainSums& sums, const NestedTable& table,
                             const BudgetBound* bound, std::int64_t plan_cost) {
  ExactRoot root(chain, sums, table);
  root.solve_end();
  for (auto first = static_cast<std::int64_t>(chain.blocks.size()) - 1; first >= 0; --first) {
    root.solve(first, bound, plan_cost);
  }
  return root.points();
}

RootChoice best_root_choice(const Chain& chain, const ChainSums& sums, const NestedTable& table,
                            const RootPoints& points, std::int64_t first, std::int64_t bytes) {
  RootChoice best;
  std::int64_t least = kInfiniteCost;
  const auto consider = [&](std::int64_t cost, const RootChoice& choice) {
    if (cost >= least) return;
    least = cost;
    best = choice;
  };
  for (const KeptChoice& kept : kept_choices(chain, sums, first)) {
    const std::int64_t left_over_bytes = bytes - kept.held_bytes;
    if (bytes < kept.peak_bytes) continue;
    consider(kept.extra_cost + cost_within(points.from[at(kept.end)], left_over_bytes),
             {.kind = kept.option < 0 ? RootChoice::Kind::kKeep : RootChoice::Kind::kOption,
              .end = kept.end,
              .option = kept.option,
              .left_over_bytes = left_over_bytes});
  }
  const auto n = static_cast<std::int64_t>(chain.blocks.size());
  const std::int64_t left_over_bytes = bytes - chain.blocks[at(first)].input_bytes;
  for (std::int64_t end = first + 1; end < n; ++end) {
    if (bytes < sums.sweep_peak_bytes(first, end - 1)) break;  // it only grows
    const std::int64_t recompute_bytes = bytes - sums.parameter_gradient_bytes(end, n);
    if (recompute_bytes < 0) continue;
    const std::int64_t slots = table.unit().slots_within(recompute_bytes);
    const std::int64_t recompute_cost = table.row(first, end - 1).cost(slots);
    if (recompute_cost == kInfiniteCost) continue;
    consider(recompute_cost + sums.once_cost(first, end - 1) +
                 cost_within(points.from[at(end)], left_over_bytes),
             {.kind = RootChoice::Kind::kRegion,
              .end = end,
              .left_slots = slots,
              .left_over_bytes = left_over_bytes});
  }
  return best;
}

}  // namespace cairn
