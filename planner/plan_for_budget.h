#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "graph/plan.h"
#include "planner/evaluation.h"
#include "planner/op_costs.h"
#include "planner/planner.h"
#include "planner/target.h"

// The cheapest plan whose peak is within a budget, or all that are worth a budget of their own.
//
//   algorithm ──► candidate plans ──► lower, simulate, validate ──► the cheapest within the budget
//
// Peaks are those of the whole training step as the simulator sees it, never an algorithm's own
// estimate. The same request gives the same answer, whatever the number of threads.

namespace cairn {

struct PlanRequest {
  Strategy strategy = {.algorithm = Algorithm::kAuto};
  Setting setting = {};
  Target target = Target::kAny;
  std::vector<TensorId> keep = {};       // held by every region that makes them
  std::vector<TensorId> recompute = {};  // dropped after forward, and made again
};

// No plan at all within the budget costs less than this.
struct LowerBound {
  std::int64_t extra_cost = 0;
  std::string reason = {};  // "at loss": the block whose forward or backward forces it
};

struct PlanAnswer {
  bool is_feasible = false;
  Evaluation evaluation = {};  // the cheapest within the budget, else the one with the least peak
  CostUnit unit = CostUnit::kRecomputes;
  std::int64_t extra_cost = 0;   // of the evaluation, in `unit`
  std::string optimal_for = {};  // "nested-region plans of these 66 blocks"; "" for heuristics
  LowerBound bound = {};         // feasible only
  std::int64_t plan_count = 0;   // plans that were lowered and simulated
};

// Throws InputError when the graph does not allow the algorithm, or a constraint cannot be met.
PlanAnswer plan_for_budget(const Graph& graph, const PlanRequest& request,
                           std::int64_t budget_bytes);

// One plan that no other found is both smaller and cheaper than.
struct FrontierPoint {
  std::int64_t peak_bytes = 0;
  std::int64_t extra_cost = 0;
  Plan plan = {};
};

struct Frontier {
  CostUnit unit = CostUnit::kRecomputes;
  std::vector<FrontierPoint> points = {};  // by falling peak, so by rising cost; at least one
  std::size_t knee = 0;  // the point nearest to (least peak, no cost), both scaled to [0, 1]
};

// The budgets worth telling apart: each is smaller than the next by 1/512 of all that can be saved,
// or is the least of all.
Frontier plan_frontier(const Graph& graph, const PlanRequest& request);

}  // namespace cairn
