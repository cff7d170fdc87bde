#include "planner/row_worker.h"

#include <limits>

namespace cairn {
namespace {

constexpr std::size_t kPageSize = std::size_t{1} << 16;

// Above `cost` by more than the rounding of the sums that are compared with it.
float limit_of(std::int64_t cost) {
  if (cost >= kInfiniteCost) return std::numeric_limits<float>::infinity();
  return static_cast<float>(cost) * 1.000001F;
}

}  // namespace

void RowWorker::start(std::int64_t most_slots, std::int64_t most_cost, std::int64_t chunk_slots) {
  most_slots_ = most_slots;
  most_cost_ = most_cost;
  chunk_slots_ = chunk_slots;
  tried_count = 0;
  std::fill(best.begin(), best.begin() + (most_slots + 1), most_cost + 1);
  for (int chunk = 0; chunk < kChunks; ++chunk) {
    const bool is_used = chunk * chunk_slots <= most_slots;
    limits[static_cast<std::size_t>(chunk)] =
        is_used ? limit_of(most_cost + 1) : -std::numeric_limits<float>::infinity();
    winners[static_cast<std::size_t>(chunk)] = 0;
  }
}

void RowWorker::take_row(const ShiftedRow& row, std::int64_t cost, std::int64_t begin,
                         std::int64_t end) {
  if (begin >= end) return;
  const std::int64_t middle = std::clamp(row.high(), begin, end);
  take_least_row(best.data() + begin, row.at(begin), cost, middle - begin);
  take_least_constant(best.data() + middle, cost + *row.at(row.high()), end - middle);
}

void RowWorker::take_sum(const ShiftedRow& left, const ShiftedRow& right, std::int64_t cost,
                         std::int64_t begin, std::int64_t end) {
  if (begin >= end) return;
  const bool is_left_shorter = left.high() < right.high();
  const ShiftedRow& shorter = is_left_shorter ? left : right;
  const ShiftedRow& longer = is_left_shorter ? right : left;
  const std::int64_t both = std::clamp(shorter.high(), begin, end);
  const std::int64_t one = std::clamp(longer.high(), begin, end);
  std::int64_t* const row = best.data();
  take_least_sum(row + begin, shorter.at(begin), longer.at(begin), cost, both - begin);
  cost += *shorter.at(shorter.high());
  take_least_row(row + both, longer.at(both), cost, one - both);
  take_least_constant(row + one, cost + *longer.at(longer.high()), end - one);
}

void RowWorker::take_chunks(const ShiftedRow& left, const ShiftedRow& right, std::int64_t cost,
                            std::int64_t least_slots, std::uint32_t chunks, std::int32_t split) {
  ++statistics.split_count;
  const std::int64_t least = std::max({left.low(), right.low(), least_slots});
  while (chunks != 0) {  // runs of chunks side by side
    const int from = __builtin_ctz(chunks);
    const int to = from + __builtin_ctz(~(chunks >> from));
    take_sum(left, right, cost, std::max(least, from * chunk_slots_),
             std::min(most_slots_ + 1, to * chunk_slots_));
    update_limits(from, to, split);
    chunks &= ~((1U << to) - 1);
  }
}

void RowWorker::update_limits(int from, int to, std::int32_t split) {
  for (int chunk = from; chunk < to; ++chunk) {
    const std::int64_t slot = chunk * chunk_slots_;
    if (slot > most_slots_) return;
    const float limit = limit_of(best[static_cast<std::size_t>(slot)]);
    const auto i = static_cast<std::size_t>(chunk);
    if (limit < limits[i]) {
      limits[i] = limit;
      winners[i] = split;
    }
  }
}

void RowWorker::limit_chunk(int chunk, std::int64_t cost) {
  float& limit = limits[static_cast<std::size_t>(chunk)];
  limit = std::min(limit, limit_of(cost));
}

CostRow RowWorker::finish() {
  ++statistics.row_count;
  const std::int64_t* const row = best.data();
  std::int64_t low = 0;
  while (low <= most_slots_ && row[low] > most_cost_) ++low;
  if (low > most_slots_) return {};
  std::int64_t high = most_slots_;
  while (high > low && row[high - 1] == row[high]) --high;
  const auto size = static_cast<std::size_t>(high - low + 1);
  if (page_size_ - page_used_ < size) {
    page_size_ = std::max(kPageSize, size);
    page_used_ = 0;
    pages_.emplace_back(new std::int64_t[page_size_]);
  }
  std::int64_t* const costs = pages_.back().get() + page_used_;
  std::copy(row + low, row + high + 1, costs);
  page_used_ += size;
  statistics.state_count += high - low + 1;
  return {.low = static_cast<std::int32_t>(low),
          .high = static_cast<std::int32_t>(high),
          .costs = costs};
}

void write_samples(const CostRow& row, std::int64_t chunk_slots, float* samples) {
  for (int chunk = 0; chunk < kChunks; ++chunk) {
    const std::int64_t cost = row.cost((chunk + 1) * chunk_slots - 1);
    samples[chunk] =
        cost == kInfiniteCost ? std::numeric_limits<float>::infinity() : static_cast<float>(cost);
  }
}

}  // namespace cairn
