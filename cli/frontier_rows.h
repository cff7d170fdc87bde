#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "planner/plan_for_budget.h"

// Which points of a frontier a table of some length shows, and what memory is worth along it.

namespace cairn {

// At most `most_rows` (at least 3) of the points, in order: both ends, the knee, and of the rest
// those that leave the smallest gaps.
std::vector<std::size_t> shown_points(const Frontier& frontier, std::size_t most_rows);

// What each byte more saves between two points, in units of cost a byte; 0 for the first of all.
double marginal_price(const FrontierPoint& larger, const FrontierPoint& smaller);

// The step of memory to quote prices for: 1 GiB; 10 or 100 GiB where the peaks range over 20 of
// these; where they range over less than 1 GiB the largest of 100 MiB, 10 MiB, ..., 1 B within it.
std::int64_t price_unit_bytes(const Frontier& frontier);

}  // namespace cairn
