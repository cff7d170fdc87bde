#pragma once

#include <cstdint>
#include <vector>

#include "planner/chain.h"
#include "planner/chain_sums.h"
#include "planner/slot_unit.h"

// For one budget, a lower bound on what a plan costs outside of a range that some recompute is
// about: a region there costs one forward and holds its input, and its recompute needs no memory.
// With the cost of any plan known, it says which rows of the nested table can be of use.

namespace cairn {

class BudgetBound {
 public:
  // Sizes and `slot_count` are exact multiples of the unit.
  BudgetBound(const Chain& chain, const ChainSums& sums, const SlotUnit& unit,
              std::int64_t slot_count);

  struct Limits {
    std::int64_t slots = -1;         // more than these are never available; -1: of no use at all
    std::int64_t repeated_cost = 0;  // nor may the recompute cost more than this beyond once
  };
  // Of the range, when a plan is known that costs `plan_cost`.
  Limits limits(std::int64_t first, std::int64_t last, std::int64_t plan_cost) const;
  // The least cost of the blocks before one in the root, when the root holds at most so many slots.
  std::int64_t cost_before(std::int64_t block, std::int64_t held_slots) const {
    return before_root_[static_cast<std::size_t>(block)][static_cast<std::size_t>(held_slots)];
  }

 private:
  std::int64_t& before(std::int64_t block, std::int64_t slots);
  std::int64_t& behind(std::int64_t block, std::int64_t slots);
  void add_behind(const Chain& chain, const SlotUnit& unit);
  void add_before(const Chain& chain, const SlotUnit& unit);
  std::int64_t dropped_cost(const Chain& chain, std::int64_t block) const;

  const ChainSums& sums_;
  std::int64_t block_count_ = 0;
  std::int64_t slot_count_ = 0;
  std::vector<std::int64_t> input_slots_ = {};
  // For each first block of a range, by how much what is held before it in some recompute can fall
  // short of what its region's input and the root hold.
  std::vector<std::int64_t> slack_slots_ = {};
  // Both indexed by block and by slots held. Before: the least cost of the blocks before when this
  // one is in a region and so much is held, the region's input included. Behind: of this block and
  // those behind it, in a region still or not, when so much is held.
  std::vector<std::vector<std::int64_t>> before_root_ = {};
  std::vector<std::int64_t> before_ = {};
  std::vector<std::int64_t> behind_ = {};
};

}  // namespace cairn
