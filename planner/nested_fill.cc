// The order in which rows of the nested table are computed, and by which thread.

#include <algorithm>
#include <atomic>
#include <barrier>
#include <functional>
#include <thread>

#include "planner/nested_table.h"
#include "planner/row_worker.h"

namespace cairn {
namespace {

constexpr std::int64_t kTile = 16;  // rows and columns of ranges that are computed together

// Steps one behind the other; the items of one step in any order, on any thread.
struct Steps {
  std::int64_t step_count = 0;
  std::function<std::int64_t(std::int64_t step)> item_count = {};
  std::function<void(int thread, std::int64_t step, std::int64_t item)> run = {};
};

void run_steps(const Steps& steps, int thread_count) {
  if (thread_count <= 1) {
    for (std::int64_t step = 0; step < steps.step_count; ++step) {
      const std::int64_t count = steps.item_count(step);
      for (std::int64_t item = 0; item < count; ++item) steps.run(0, step, item);
    }
    return;
  }
  std::atomic<std::int64_t> next = 0;
  std::barrier step_is_done(thread_count, [&next]() noexcept { next = 0; });
  const auto work = [&](int thread) {
    for (std::int64_t step = 0; step < steps.step_count; ++step) {
      const std::int64_t count = steps.item_count(step);
      for (std::int64_t item = next++; item < count; item = next++) steps.run(thread, step, item);
      step_is_done.arrive_and_wait();
    }
  };
  std::vector<std::jthread> threads;
  for (int thread = 1; thread < thread_count; ++thread) threads.emplace_back(work, thread);
  work(0);
}

}  // namespace

void NestedTable::extend(std::int64_t block_count, const BudgetBound* bound,
                         std::int64_t plan_cost) {
  const Band band = {.begin = extended_block_count_,
                     .end = std::min(block_count, sums_.region_blocks),
                     .bound = first_equal_.empty() ? bound : nullptr,
                     .plan_cost = plan_cost};
  if (band.begin >= band.end) return;
  if (first_equal_.empty()) {
    fill_tiles(band);
  } else {
    fill_shared(band);
  }
  extended_block_count_ = band.end;
}

// Tiles whose ranges are about equally long depend on shorter ones only.
void NestedTable::fill_tiles(const Band& band) {
  const std::int64_t tile_count = (sums_.region_blocks + kTile - 1) / kTile;
  const std::int64_t begin = band.begin / kTile;
  const std::int64_t end = std::min(tile_count, (band.end + kTile - 2) / kTile + 1);
  const Steps steps = {.step_count = end - begin,
                       .item_count = [&](std::int64_t step) { return tile_count - (begin + step); },
                       .run =
                           [&](int thread, std::int64_t step, std::int64_t item) {
                             fill_tile(*workers_[static_cast<std::size_t>(thread)], band, item,
                                       item + begin + step);
                           }};
  run_steps(steps, static_cast<int>(workers_.size()));
}

void NestedTable::fill_tile(RowWorker& worker, const Band& band, std::int64_t row_tile,
                            std::int64_t column_tile) {
  const std::int64_t last_end = std::min((column_tile + 1) * kTile, sums_.region_blocks);
  for (std::int64_t last = column_tile * kTile; last < last_end; ++last) {
    const std::int64_t first_begin = std::max(row_tile * kTile, last - band.end + 1);
    const std::int64_t first_end = std::min((row_tile + 1) * kTile, last - band.begin + 1);
    for (std::int64_t first = first_end - 1; first >= first_begin; --first) {
      compute_row(worker, band, first, last);
    }
  }
}

// Length by length: first the ranges that are the first of their kind, then their repeats.
void NestedTable::fill_shared(const Band& band) {
  std::vector<std::vector<std::int32_t>> originals(static_cast<std::size_t>(band.end - band.begin));
  for (std::int64_t length = band.begin; length < band.end; ++length) {
    for (std::int64_t first = 0; first + length < sums_.region_blocks; ++first) {
      if (first_equal_[sums_.index(first, first + length)] != first) continue;
      originals[static_cast<std::size_t>(length - band.begin)].push_back(
          static_cast<std::int32_t>(first));
    }
  }
  for (std::int64_t length = band.begin; length < band.end; ++length) {
    const std::vector<std::int32_t>& firsts =
        originals[static_cast<std::size_t>(length - band.begin)];
    for (const std::int32_t first : firsts) {
      compute_row(*workers_.front(), band, first, first + length);
    }
    for (std::int64_t first = 0; first + length < sums_.region_blocks; ++first) {
      if (first_equal_[sums_.index(first, first + length)] != first) {
        copy_row(first, first + length);
      }
    }
  }
}

}  // namespace cairn
