#pragma once

#include <cstddef>
#include <vector>

#include "planner/keep_frontier.h"

// Fewer keep lists for a chain of many blocks, where mixing a few of them does nearly as well as
// choosing among thousands that differ by a norm's statistics.

namespace cairn {

// Of `sets`, in their order: all when they are few; else those on the lower hull of held bytes
// and cost, of which mixtures are made, the cheapest in each of about `bucket_count` equal ranges
// of held bytes, and in each of a quarter as many of backward peaks.
std::vector<KeepSet> thinned(const std::vector<KeepSet>& sets, std::size_t bucket_count);

}  // namespace cairn
