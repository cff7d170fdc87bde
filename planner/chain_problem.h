#pragma once

#include <cstdint>
#include <vector>

#include "graph/graph.h"
#include "planner/blocks.h"
#include "planner/chain.h"
#include "planner/op_costs.h"
#include "planner/plan_for_budget.h"

// A graph and a request as a chain to solve, and its solutions as plans.

namespace cairn {

// Budgets of a problem are below this: what a request does not allow needs more.
inline constexpr std::int64_t kMostBudgetBytes = std::int64_t{1} << 59;

// What a plan may be made of.
struct ChainForm {
  bool layers_only = false;   // only layers may be regions
  bool whole_layers = false;  // and they hold what the trainer calls a layer, no more
  bool keep_lists = true;     // of regions of the root
  bool nesting = true;        // regions of several blocks without lists, and regions in regions
};

struct ChainProblem {
  OpCosts costs = {};
  std::vector<Block> blocks = {};
  Chain chain = {};
  bool has_all_layers = true;  // each layer is a block of its own; not so for skips across layers
  bool has_all_lists = true;   // the keep lists offered are all that can be of use
};

// Numbers are measured on a graph with each kind of block but a few times. Throws InputError where
// a constraint of the request cannot be met.
ChainProblem chain_problem(const Graph& graph, const PlanRequest& request, const ChainForm& form);

}  // namespace cairn
