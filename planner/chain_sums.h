#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "planner/chain.h"

// Sums over ranges of blocks, and the numbers of ranges that every solver of a chain asks for.
// `last` is the last block of a range, included.

namespace cairn {

// A triangle over the ranges of `count` blocks, range by range of one first block.
struct RangeIndex {
  std::int64_t count = 0;
  std::size_t operator()(std::int64_t first, std::int64_t last) const {
    return static_cast<std::size_t>(first * count - first * (first - 1) / 2 + (last - first));
  }
  std::size_t size() const { return static_cast<std::size_t>(count * (count + 1) / 2); }
};

struct ChainSums {
  std::int64_t region_blocks = 0;  // all but the last: those that a region may hold
  std::vector<std::int64_t> sweep_cost_before = {};
  std::vector<std::int64_t> parameter_gradient_bytes_before = {};
  // sweep_cost_before[i - 1] + last_cost[i - 1], for i > 0: with the sweeps before the first block
  // taken off, what the recompute of a region up to i costs at least.
  std::vector<std::int64_t> once_cost_before = {};
  RangeIndex index = {};
  std::vector<std::int64_t> region_sweep_peak_bytes = {};  // above what is held before it

  // One recompute of the range, nothing in it twice.
  std::int64_t once_cost(std::int64_t first, std::int64_t last) const {
    return once_cost_before[static_cast<std::size_t>(last + 1)] -
           sweep_cost_before[static_cast<std::size_t>(first)];
  }
  std::int64_t parameter_gradient_bytes(std::int64_t begin, std::int64_t end) const {
    return parameter_gradient_bytes_before[static_cast<std::size_t>(end)] -
           parameter_gradient_bytes_before[static_cast<std::size_t>(begin)];
  }
  std::int64_t sweep_peak_bytes(std::int64_t first, std::int64_t last) const {
    return region_sweep_peak_bytes[index(first, last)];
  }
};

// What the root can do with a block but drop it: keep it whole, or take an option that begins
// there.
struct KeptChoice {
  std::int64_t option = -1;  // index in Chain::options
  std::int64_t end = 0;      // the block behind it
  std::int64_t held_bytes = 0;
  std::int64_t peak_bytes = 0;  // of forward and backward, later parameters' gradients included
  std::int64_t extra_cost = 0;
};

// To keep, then the options.
std::vector<KeptChoice> kept_choices(const Chain& chain, const ChainSums& sums, std::int64_t first);

ChainSums sum_chain(const Chain& chain);

// The budget above the chain's base from which on everything can be kept.
std::int64_t keep_all_bytes(const Chain& chain, const ChainSums& sums);

// The least budget, base included, that any choice of regions and options fits in; exact.
std::int64_t least_chain_bytes(const Chain& chain, const ChainSums& sums);

// For each range, the first block of the first range that is equal to it in all that the recompute
// of a region depends on. Empty when fewer than half of the ranges are such repeats.
std::vector<std::int32_t> first_equal_ranges(const Chain& chain, const ChainSums& sums);

}  // namespace cairn
