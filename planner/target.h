#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "graph/plan.h"
#include "planner/planner.h"

// Whom a plan is for: what it can run, and how far its recomputes go.

namespace cairn {

enum class Target {
  kAny,         // an ideal executor: any tree of regions, extent `needed`
  kTorch,       // torch.utils.checkpoint without reentry, nested and selective: extent `prefix`
  kHf,          // Transformers: any set of whole layers, extent `prefix`
  kMegatron,    // core attention, the first layers, or all in equal runs: `whole`
  kTorchtitan,  // one choice for all layers, extent `whole`
  kJax,         // jax.checkpoint with policies, nested: extent `needed`
};

std::string_view target_name(Target target);
std::optional<Target> find_target(std::string_view name);
std::vector<std::string> target_names();

// Whether it can run any tree of regions in the graph's order, with keep lists on outermost ones.
bool runs_all_plans(Target target);

// Whether plans of this algorithm are for it.
bool runs_algorithm(Target target, Algorithm algorithm);

// Whether its regions may have keep lists of the user's choice.
bool runs_keep_lists(Target target);

// The extent of its recomputes.
Extent target_extent(Target target);

}  // namespace cairn
