#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "graph/trace.h"

// What holds the peak, for people: by category, and the largest groups of equal names.

namespace cairn {

// Live items that differ only in the number of their layer: "layers.*.act x 32".
struct LiveGroup {
  std::string name = {};  // "layers.31.act" when it stands alone
  MemoryCategory category = MemoryCategory::kSavedActivations;
  std::size_t count = 0;
  std::int64_t bytes = 0;  // of all of them
};

// "layers.31.act" as "layers.*.act": each part between dots (or spaces) that is a number.
std::string without_layer_numbers(const std::string& name);

// Largest first.
std::vector<LiveGroup> group_live_items(const std::vector<LiveItem>& items);

// "layers.*.act x 32".
std::string group_text(const LiveGroup& group);

// Parameters, gradients of parameters and optimizer states: what checkpointing cannot shrink.
bool is_training_state(MemoryCategory category);

// One line for each category that is not empty: bytes and share of the peak.
std::string breakdown_text(const Trace& trace);

// The largest `limit` groups of at least a thousandth of the peak, one line each, with their
// category. `with_training_state`: also parameters, gradients and optimizer states.
std::string largest_groups_text(const Trace& trace, std::size_t limit, bool with_training_state);

}  // namespace cairn
