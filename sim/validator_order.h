#pragma once

#include <cstdint>
#include <vector>

#include "graph/graph.h"
#include "graph/plan.h"
#include "graph/schedule.h"
#include "sim/validator.h"

// The validator's first half: which steps must run, and in which order. Not for other callers.

namespace cairn {

inline constexpr std::int32_t kNoPosition = -1;

// What the rules say of one region. Positions are in Plan::order.
struct RegionRule {
  std::int32_t begin = 0;
  std::int32_t end = 0;
  std::int32_t trigger = kNoPosition;     // the Backward directly before which it is recomputed
  std::vector<OpId> ops = {};             // what that recompute runs
  std::int32_t held_until = kNoPosition;  // the Backward up to which `inputs` are held, read or not
  bool holds_what_it_is_passed = false;   // and `inputs` at least to the end of the region
  std::int32_t stop = kNoPosition;        // `prefix`: where the recompute stops
  std::vector<TensorId> kept = {};        // `prefix`: the keep list
  bool lets_go_behind_recompute = false;  // `inputs` are held up to the last step of its recompute
  std::vector<TensorId> inputs = {};      // all that its ops read and others make
};

// One rule a region, every region behind the one around it.
std::vector<RegionRule> derive_region_rules(const Graph& graph, const Plan& plan);

// The Computes, Backwards and Recomputes of the schedule: kUnknownStep to kRecomputeOutOfOrder.
ValidationResult check_order(const Graph& graph, const Plan& plan,
                             const std::vector<RegionRule>& rules, const Schedule& schedule);

// Position in the plan's order of the op that makes a tensor, by tensor; kNoPosition for inputs
// and parameters.
std::vector<std::int32_t> positions_of_makers(const Graph& graph, const Plan& plan);

// By tensor: is it in the keep list of an outermost region?
std::vector<bool> kept_tensors(const Graph& graph, const Plan& plan);

}  // namespace cairn
