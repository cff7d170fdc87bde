#include "planner/budget_bound.h"

#include <algorithm>
#include <cstddef>

#include "planner/row_kernels.h"

namespace cairn {
namespace {

using Row = std::vector<std::int64_t>;  // by slots held

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

void take_least(std::int64_t& least, std::int64_t cost) { least = std::min(least, cost); }

}  // namespace

std::int64_t& BudgetBound::before(std::int64_t block, std::int64_t slots) {
  return before_[at(block * (slot_count_ + 1) + slots)];
}

std::int64_t& BudgetBound::behind(std::int64_t block, std::int64_t slots) {
  return behind_[at(block * (slot_count_ + 1) + slots)];
}

std::int64_t BudgetBound::dropped_cost(const Chain& chain, std::int64_t block) const {
  return std::min(chain.blocks[at(block)].sweep_cost, chain.blocks[at(block)].last_cost);
}

BudgetBound::BudgetBound(const Chain& chain, const ChainSums& sums, const SlotUnit& unit,
                         std::int64_t slot_count)
    : sums_(sums),
      block_count_(static_cast<std::int64_t>(chain.blocks.size())),
      slot_count_(slot_count) {
  const std::size_t size = at((block_count_ + 1) * (slot_count_ + 1));
  before_.assign(size, kInfiniteCost);
  behind_.assign(size, kInfiniteCost);
  std::int64_t slack_slots = 0;  // a recompute that keeps its first block may let go of its input
  for (const ChainBlock& block : chain.blocks) {
    input_slots_.push_back(unit.slots_of(block.input_bytes));
    slack_slots_.push_back(std::max(slack_slots, input_slots_.back()));
    slack_slots =
        std::max(slack_slots, input_slots_.back() - unit.slots_of(block.inner_held_bytes));
  }
  add_behind(chain, unit);
  add_before(chain, unit);
}

void BudgetBound::add_behind(const Chain& chain, const SlotUnit& unit) {
  const std::int64_t width = slot_count_ + 1;
  std::vector<Row> outside(at(block_count_ + 1), Row(at(width), kInfiniteCost));
  outside.back().assign(at(width), 0);
  for (std::int64_t held = 0; held < width; ++held) behind(block_count_, held) = 0;
  for (std::int64_t i = block_count_ - 1; i >= 0; --i) {
    for (const KeptChoice& kept : kept_choices(chain, sums_, i)) {
      const std::int64_t kept_slots = unit.slots_of(kept.held_bytes);
      const std::int64_t most = slot_count_ - std::max(unit.slots_of(kept.peak_bytes), kept_slots);
      for (std::int64_t held = 0; held <= most; ++held) {
        take_least(outside[at(i)][at(held)],
                   kept.extra_cost + outside[at(kept.end)][at(held + kept_slots)]);
      }
    }
    const bool may_drop = i < block_count_ - 1;
    const std::int64_t cost = dropped_cost(chain, i);
    for (std::int64_t held = 0; may_drop && held + input_slots_[at(i)] < width; ++held) {
      take_least(outside[at(i)][at(held)], cost + behind(i + 1, held + input_slots_[at(i)]));
    }
    for (std::int64_t held = 0; held < width; ++held) {
      behind(i, held) = outside[at(i)][at(held)];
      if (may_drop) take_least(behind(i, held), cost + behind(i + 1, held));
      take_least(behind(i, held), kInfiniteCost);
    }
  }
}

void BudgetBound::add_before(const Chain& chain, const SlotUnit& unit) {
  const std::int64_t width = slot_count_ + 1;
  std::vector<Row>& outside = before_root_;
  outside.assign(at(block_count_ + 1), Row(at(width), kInfiniteCost));
  outside.front().assign(at(width), 0);
  for (std::int64_t i = 0; i < block_count_; ++i) {
    for (std::int64_t held = 0; held < width; ++held) {  // costs fall as more is held
      if (held == 0) continue;
      take_least(outside[at(i)][at(held)], outside[at(i)][at(held - 1)]);
    }
    for (const KeptChoice& kept : kept_choices(chain, sums_, i)) {
      const std::int64_t kept_slots = unit.slots_of(kept.held_bytes);
      const std::int64_t most = slot_count_ - std::max(unit.slots_of(kept.peak_bytes), kept_slots);
      for (std::int64_t held = 0; held <= most; ++held) {
        take_least(outside[at(kept.end)][at(held + kept_slots)],
                   kept.extra_cost + outside[at(i)][at(held)]);
      }
    }
    if (i == block_count_ - 1) return;
    const std::int64_t cost = dropped_cost(chain, i);
    for (std::int64_t held = 0; held < width; ++held) {
      if (held >= input_slots_[at(i)]) {
        take_least(before(i, held), outside[at(i)][at(held - input_slots_[at(i)])]);
      }
      const std::int64_t behind_cost = std::min(kInfiniteCost, before(i, held) + cost);
      take_least(before(i + 1, held), behind_cost);
      take_least(outside[at(i + 1)][at(held)], behind_cost);
    }
  }
}

BudgetBound::Limits BudgetBound::limits(std::int64_t first, std::int64_t last,
                                        std::int64_t plan_cost) const {
  const std::int64_t width = slot_count_ + 1;
  const std::int64_t* const outer = &before_[at(first * width)];
  const std::int64_t* const later = &behind_[at((last + 1) * width)];
  const std::int64_t left_over = plan_cost - sums_.once_cost(first, last);
  const std::int64_t held = find_at_most(outer, later, left_over, width);
  if (held == width) return {};
  const std::int64_t rest = least_sum(outer + held, later + held, width - held);
  return {.slots = std::min(slot_count_, slot_count_ - held + slack_slots_[at(first)]),
          .repeated_cost = left_over - rest};
}

}  // namespace cairn
