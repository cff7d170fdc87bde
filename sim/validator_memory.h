#pragma once

#include <vector>

#include "sim/validator.h"
#include "sim/validator_order.h"

// The validator's second half: who lives when, and how many bytes that is. Not for other callers.

namespace cairn {

// The frees of a schedule whose order was found right: kFreeOfResident to kMissingGradientFree.
// Without a fault, the result carries the peak.
ValidationResult check_memory(const Graph& graph, const Plan& plan,
                              const std::vector<RegionRule>& rules, const Schedule& schedule);

}  // namespace cairn
