#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "graph/graph.h"
#include "graph/plan.h"

// Every planning algorithm, one .cc each. A plan says where to drop and recompute; what that costs
// is the simulator's to say.

namespace cairn {

enum class Algorithm {
  kNone,        // keep everything
  kEveryLayer,  // one region a layer: what trainers' "gradient checkpointing" does
  kUniform,     // one region for each `layers_per_region` layers
  kSqrt,        // regions of about sqrt(n) of n layers (Chen et al. 2016)
  // These look at a budget.
  kChenGreedy,  // a region ends when it has made so many bytes (Chen et al. 2016, algorithm 3)
  kRevolve,     // nested regions by the binomial rule for equal layers (Griewank & Walther 2000)
  kSelective,   // one region a layer, with a keep list
  kChain,       // nested regions of unequal blocks, each with a choice among keep lists
  kAuto,        // the cheapest of all
};

struct Strategy {
  Algorithm algorithm = Algorithm::kNone;
  std::int64_t layers_per_region = 0;  // kUniform only; 0: whichever is best for a budget
};

// "none", "every-layer", "uniform:4", "sqrt". Throws InputError, offering the nearest name.
Strategy parse_strategy(std::string_view text);
// One of these or of those that look at a budget: "chain", "auto", ...
Strategy parse_algorithm(std::string_view text);
std::string strategy_name(const Strategy& strategy);
std::vector<std::string> strategy_names();  // for help and messages
std::vector<std::string> algorithm_names();
bool needs_budget(Algorithm algorithm);
// Whether it recomputes anything, as far as there are layers to be recomputed.
bool is_checkpointed(const Strategy& strategy);

// Of a strategy that needs no budget; see planner/plan_for_budget.h for those that do.
Plan make_plan(const Graph& graph, const Strategy& strategy, Extent extent);

// The layers of a graph as half-open ranges of its order: its repeated blocks where it has them,
// else the gradient path, with a range ending behind each of its articulation ops (graph/dag.h).
std::vector<std::pair<std::int32_t, std::int32_t>> layer_ranges(const Graph& graph);

// The same from the first with a Backward on. Those before it keep nothing: there is no parameter
// to be trained up to their end.
std::vector<std::pair<std::int32_t, std::int32_t>> layers_with_backward(const Graph& graph);

// One region for each `layers_per_region` (at least 1) of these layers. A region behind which
// nothing has a Backward is left out: it would be recomputed at once, for a forward more and no
// memory less.
Plan plan_uniform(const Graph& graph, std::int64_t layers_per_region, Extent extent);

// Regions of ceil(sqrt(n)) layers.
Plan plan_sqrt(const Graph& graph, Extent extent);

// Regions that end behind the first cut point at which they have made more than b bytes, one plan
// for each b that gives another, up to the one without regions. Cut points are the ends of layers
// and articulation ops. What is behind the last region is kept.
std::vector<Plan> chen_greedy_plans(const Graph& graph, Extent extent);

// Nested regions as the binomial rule has them, one plan for each number of snapshots, and the one
// without regions. Optimal for equal layers of which all is dropped but the input; others are taken
// for equal. Regions are at most 30 deep.
std::vector<Plan> revolve_plans(const Graph& graph, Extent extent);

}  // namespace cairn
