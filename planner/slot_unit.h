#pragma once

#include <cstdint>

#include "planner/chain.h"

// Memory in slots of equal size: what a table over all budgets is indexed with.

namespace cairn {

struct SlotUnit {
  std::int64_t bytes = 1;
  bool rounds_up = true;  // sizes; else down, for a lower bound of the cost

  // Of a size or a threshold.
  std::int64_t slots_of(std::int64_t size_bytes) const {
    return (size_bytes + (rounds_up ? bytes - 1 : 0)) / bytes;
  }
  // Of what is available: the other way round.
  std::int64_t slots_within(std::int64_t available_bytes) const {
    return (available_bytes + (rounds_up ? 0 : bytes - 1)) / bytes;
  }
  // The least that has so many slots within.
  std::int64_t bytes_of(std::int64_t slots) const {
    if (rounds_up || slots == 0) return slots * bytes;
    return (slots - 1) * bytes + 1;
  }
};

// The greatest common divisor of all sizes of the chain, its base aside.
std::int64_t common_divisor_bytes(const Chain& chain);

// Near available_bytes / slot_limit, the unit that loses least when the sizes that add up in a
// recompute are rounded up to it.
std::int64_t choose_unit_bytes(const Chain& chain, std::int64_t available_bytes,
                               std::int64_t slot_limit);

}  // namespace cairn
