#include "planner/nested_table.h"

#include <algorithm>
#include <utility>

#include "planner/row_worker.h"

namespace cairn {
namespace {

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

}  // namespace

struct NestedTable::Problem {
  std::int64_t first = 0;
  std::int64_t last = 0;
  std::int64_t most_slots = 0;   // the row's end
  std::int64_t most_cost = 0;    // costs beyond are of no use
  std::int64_t split_count = 0;  // splits that may cost less than that
  SplitSamples samples = {};     // of split first + 1, and on
};

NestedTable::NestedTable(const Chain& chain, const ChainSums& sums,
                         std::vector<std::int32_t> first_equal, const SlotUnit& unit,
                         std::int64_t slot_count, const NestedOptions& options)
    : chain_(chain),
      sums_(sums),
      unit_(unit),
      slot_count_(slot_count),
      chunk_slots_(slot_count / kChunks + 1),
      options_(options),
      first_equal_(std::move(first_equal)),
      rows_(sums.index.size()),
      likely_splits_(sums.index.size() * 2),
      left_samples_(new float[sums.index.size() * kChunks]),
      right_samples_(new float[sums.index.size() * kChunks]) {
  for (const ChainBlock& block : chain.blocks) {
    input_slots_.push_back(unit.slots_of(block.input_bytes));
    held_slots_.push_back(unit.slots_of(block.inner_held_bytes));
  }
  for (int i = 0; i < std::max(options.thread_count, 1); ++i) {
    workers_.push_back(std::make_unique<RowWorker>());
    workers_.back()->best.resize(at(slot_count + 1));
  }
}

NestedTable::~NestedTable() = default;

RowStatistics NestedTable::statistics() const {
  RowStatistics sum;
  for (const std::unique_ptr<RowWorker>& worker : workers_) {
    sum.row_count += worker->statistics.row_count;
    sum.state_count += worker->statistics.state_count;
    sum.split_count += worker->statistics.split_count;
  }
  return sum;
}

std::int64_t NestedTable::keep_threshold(std::int64_t first, std::int64_t last) const {
  const ChainBlock& block = chain_.blocks[at(first)];
  return unit_.slots_of(std::max(
      chain_.blocks[at(last)].gradient_bytes + block.inner_forward_peak_bytes,
      block.inner_backward_peak_bytes + sums_.parameter_gradient_bytes(first + 1, last + 1)));
}

std::int64_t NestedTable::split_threshold(std::int64_t first, std::int64_t last,
                                          std::int64_t split) const {
  return unit_.slots_of(chain_.blocks[at(last)].gradient_bytes +
                        sums_.sweep_peak_bytes(first, split - 1));
}

std::int64_t NestedTable::left_shift(std::int64_t split, std::int64_t last) const {
  return unit_.slots_of(sums_.parameter_gradient_bytes(split, last + 1));
}

void NestedTable::compute_row(RowWorker& worker, const Band& band, std::int64_t first,
                              std::int64_t last) {
  Problem problem = {
      .first = first, .last = last, .most_slots = slot_count_, .most_cost = kInfiniteCost - 1};
  if (band.bound != nullptr) {
    const BudgetBound::Limits limits = band.bound->limits(first, last, band.plan_cost);
    problem.most_slots = limits.slots;
    problem.most_cost = limits.repeated_cost;
  }
  worker.start(problem.most_slots, problem.most_cost, chunk_slots_);
  if (first == last) {
    const std::int64_t low = unit_.slots_of(chain_.blocks[at(last)].last_peak_bytes);
    for (std::int64_t i = low; i <= problem.most_slots; ++i) worker.best[at(i)] = 0;
  } else if (problem.most_slots >= 0) {
    keep_first(problem, worker);
    problem.samples = {.left = left_samples(first),
                       .right = right_samples(last) + (first + 1) * kChunks,
                       .costs = sums_.once_cost_before.data() + first + 1,
                       .less_cost = sums_.sweep_cost_before[at(first)]};
    // The sweeps before a split's last block only grow with the split.
    const std::int64_t* const sweeps = sums_.sweep_cost_before.data() + first;
    problem.split_count =
        std::upper_bound(sweeps, sweeps + (last - first), sweeps[0] + problem.most_cost) - sweeps;
    try_splits(problem, worker);
  }
  store_row(problem, worker);
}

void NestedTable::keep_first(const Problem& problem, RowWorker& worker) const {
  const CostRow& rest = row(problem.first + 1, problem.last);
  if (rest.is_empty()) return;
  const std::int64_t held = held_slots_[at(problem.first)];
  const std::int64_t begin = std::max(rest.low + held, keep_threshold(problem.first, problem.last));
  worker.take_row({.row = rest, .shift = held}, 0, begin, problem.most_slots + 1);
  worker.update_limits(0, kChunks, 0);
}

void NestedTable::try_splits(const Problem& problem, RowWorker& worker) const {
  worker.tried_count = 0;
  if (options_.try_likely_splits_first) {
    const std::size_t shorter = sums_.index(problem.first, problem.last - 1) * 2;
    const std::size_t later = sums_.index(problem.first + 1, problem.last) * 2;
    for (const std::size_t i : {later, later + 1, shorter, shorter + 1}) {
      const std::int64_t split = likely_splits_[i] - (problem.first + 1);
      if (split < 0 || split >= problem.split_count || worker.was_tried(split)) continue;
      try_split_range(problem, worker, split, split + 1);
      worker.tried[worker.tried_count++] = split;
    }
  }
  try_split_range(problem, worker, 0, problem.split_count);
}

// Splits are counted from first + 1 here.
void NestedTable::try_split_range(const Problem& problem, RowWorker& worker, std::int64_t begin,
                                  std::int64_t end) const {
  for (std::int64_t split = begin; split < end; ++split) {
    std::uint32_t chunks = (1U << kChunks) - 1;
    if (options_.skip_by_samples) {
      split = find_promising(problem.samples, worker.limits.data(), split, end, chunks);
      if (split == end) return;
    }
    if (!worker.was_tried(split)) apply_split(problem, worker, split, chunks);
  }
}

void NestedTable::apply_split(const Problem& problem, RowWorker& worker, std::int64_t split_offset,
                              std::uint32_t chunks) const {
  const std::int64_t split = problem.first + 1 + split_offset;
  const CostRow& left = row(problem.first, split - 1);
  const CostRow& right = row(split, problem.last);
  if (left.is_empty() || right.is_empty()) return;
  worker.take_chunks({.row = left, .shift = left_shift(split, problem.last)},
                     {.row = right, .shift = input_slots_[at(problem.first)]},
                     sums_.once_cost(problem.first, split - 1),
                     split_threshold(problem.first, problem.last, split), chunks,
                     static_cast<std::int32_t>(split));
}

void NestedTable::store_row(const Problem& problem, RowWorker& worker) {
  const std::size_t index = sums_.index(problem.first, problem.last);
  const CostRow& stored = rows_[index] = worker.finish();
  store_samples(problem.first, problem.last);
  if (stored.is_empty()) return;
  // The best in the first chunk that is possible throughout, and in the middle.
  const std::int64_t begin = std::min<std::int64_t>(stored.low / chunk_slots_ + 1, kChunks - 1);
  const std::int64_t middle = (stored.low + stored.high) / 2 / chunk_slots_;
  likely_splits_[index * 2] = worker.winners[at(begin)];
  likely_splits_[index * 2 + 1] = worker.winners[at(middle)];
}

void NestedTable::store_samples(std::int64_t first, std::int64_t last) {
  float* const left = left_samples_.get() + sums_.index(first, last) * kChunks;
  write_samples(row(first, last), chunk_slots_, left);
  std::copy(left, left + kChunks, right_samples(last) + first * kChunks);
}

void NestedTable::copy_row(std::int64_t first, std::int64_t last) {
  const std::size_t index = sums_.index(first, last);
  const std::int64_t equal = first_equal_[index];
  rows_[index] = row(equal, equal + (last - first));
  store_samples(first, last);
}

NestedSplit NestedTable::best_split(std::int64_t first, std::int64_t last,
                                    std::int64_t slots) const {
  NestedSplit best;
  std::int64_t least = kInfiniteCost;
  const std::int64_t held = held_slots_[at(first)];
  if (slots >= keep_threshold(first, last)) {
    least = row(first + 1, last).cost(slots - held);
    best = {.keeps_first = true, .split = first + 1, .right_slots = slots - held};
  }
  const std::int64_t right_slots = slots - input_slots_[at(first)];
  for (std::int64_t split = first + 1; split <= last; ++split) {
    const std::int64_t left_slots = slots - left_shift(split, last);
    const std::int64_t left = row(first, split - 1).cost(left_slots);
    const std::int64_t right = row(split, last).cost(right_slots);
    if (left == kInfiniteCost || right == kInfiniteCost) continue;
    const std::int64_t cost = left + right + sums_.once_cost(first, split - 1);
    if (cost >= least || slots < split_threshold(first, last, split)) continue;
    least = cost;
    best = {.split = split, .left_slots = left_slots, .right_slots = right_slots};
  }
  return best;
}

}  // namespace cairn
