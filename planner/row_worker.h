#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "planner/row_kernels.h"

// Rows of costs by slots of memory, and what one thread needs to compute them: the row at hand, and
// memory for those done.

namespace cairn {

struct CostRow {
  std::int32_t low = INT32_MAX / 2;     // with fewer slots: not at all
  std::int32_t high = 0;                // more slots do not help
  const std::int64_t* costs = nullptr;  // from low to high, both included

  bool is_empty() const { return costs == nullptr; }
  std::int64_t cost(std::int64_t slots) const {
    if (slots < low) return kInfiniteCost;
    return costs[(slots < high ? slots : high) - low];
  }
};

struct RowStatistics {
  std::int64_t row_count = 0;    // computed
  std::int64_t state_count = 0;  // costs in those rows
  std::int64_t split_count = 0;  // splits of a row that were evaluated, in part at least
};

// A row that is read at `slots - shift`.
struct ShiftedRow {
  const CostRow& row;
  std::int64_t shift = 0;

  std::int64_t low() const { return row.low + shift; }
  std::int64_t high() const { return row.high + shift; }
  const std::int64_t* at(std::int64_t slots) const { return row.costs + (slots - low()); }
};

struct RowWorker {
  std::vector<std::int64_t> best = {};  // by slots
  // For each chunk: what a split must be below to improve it (just above its worst cost, which is
  // that of its lowest slot), and the split that made it so.
  std::array<float, kChunks> limits = {};
  std::array<std::int32_t, kChunks> winners = {};
  std::array<std::int64_t, 4> tried = {};
  std::size_t tried_count = 0;
  RowStatistics statistics = {};

  // Costs above `most_cost` do not count.
  void start(std::int64_t most_slots, std::int64_t most_cost, std::int64_t chunk_slots);
  void take_row(const ShiftedRow& row, std::int64_t cost, std::int64_t begin, std::int64_t end);
  void take_sum(const ShiftedRow& left, const ShiftedRow& right, std::int64_t cost,
                std::int64_t begin, std::int64_t end);
  // The same for the chunks whose bits are set, from `least_slots` on, and their limits.
  void take_chunks(const ShiftedRow& left, const ShiftedRow& right, std::int64_t cost,
                   std::int64_t least_slots, std::uint32_t chunks, std::int32_t split);
  void update_limits(int from, int to, std::int32_t split);
  // Lowers the limit of a chunk.
  void limit_chunk(int chunk, std::int64_t cost);
  // The row at hand, in memory that lives as long as the worker.
  CostRow finish();
  bool was_tried(std::int64_t split) const {
    return std::find(tried.begin(), tried.begin() + static_cast<std::ptrdiff_t>(tried_count),
                     split) != tried.begin() + static_cast<std::ptrdiff_t>(tried_count);
  }

 private:
  std::int64_t most_slots_ = 0;
  std::int64_t most_cost_ = 0;
  std::int64_t chunk_slots_ = 0;
  std::vector<std::unique_ptr<std::int64_t[]>> pages_ = {};
  std::size_t page_size_ = 0;
  std::size_t page_used_ = 0;
};

// kChunks of them.
void write_samples(const CostRow& row, std::int64_t chunk_slots, float* samples);

}  // namespace cairn
