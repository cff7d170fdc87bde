#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "planner/nested_table.h"

// What one thread of the nested table works with: the row at hand, and memory for rows.

namespace cairn {

// A row that is read at `slots - shift`.
struct ShiftedRow {
  const NestedRow& row;
  std::int64_t shift = 0;

  std::int64_t low() const { return row.low + shift; }
  std::int64_t high() const { return row.high + shift; }
  const std::int64_t* at(std::int64_t slots) const { return row.costs + (slots - low()); }
};

struct NestedTable::Worker {
  std::vector<std::int64_t> best = {};  // by slots
  // For each chunk: what a split must be below to improve it (just above its worst cost, which is
  // that of its lowest slot), and the split that made it so.
  std::array<float, kChunks> limits = {};
  std::array<std::int32_t, kChunks> winners = {};
  std::array<std::int64_t, 4> tried = {};
  std::size_t tried_count = 0;
  NestedStatistics statistics = {};

  // Costs above `most_cost` do not count.
  void start(std::int64_t most_slots, std::int64_t most_cost, std::int64_t chunk_slots);
  void take_row(const NestedRow& row, std::int64_t shift, std::int64_t begin, std::int64_t end);
  void take_sum(const ShiftedRow& left, const ShiftedRow& right, std::int64_t cost,
                std::int64_t begin, std::int64_t end);
  void update_limits(int from, int to, std::int32_t split);
  const std::int64_t* store(std::int64_t low, std::int64_t high);
  bool was_tried(std::int64_t split) const {
    return std::find(tried.begin(), tried.begin() + static_cast<std::ptrdiff_t>(tried_count),
                     split) != tried.begin() + static_cast<std::ptrdiff_t>(tried_count);
  }

 private:
  std::int64_t most_slots_ = 0;
  std::int64_t chunk_slots_ = 0;
  std::vector<std::unique_ptr<std::int64_t[]>> pages_ = {};
  std::size_t page_size_ = 0;
  std::size_t page_used_ = 0;
};

}  // namespace cairn
