#pragma once

#include <cstdint>
#include <vector>

#include "graph/graph.h"
#include "planner/plan_for_budget.h"

// One plan for a model that is trained with several shapes of batches: within the budget for each,
// and the cheapest for their mix. Plans are by position, so one holds for all shapes of a model.

namespace cairn {

struct ShapesAnswer {
  // Of the shape with the largest peak; costs and the bound are means by weight.
  PlanAnswer answer = {};
  std::vector<Evaluation> evaluations = {};  // of the same plan, by shape
  std::size_t largest = 0;                   // the shape with the largest peak
};

// `graphs` have the same ops and tensors, one graph for each shape, at least one; weights are
// positive.
// Candidates are the plans that are worth a budget of their own for some shape.
// Throws InputError as plan_for_budget does, and for graphs of different ops.
ShapesAnswer plan_for_shapes(const std::vector<Graph>& graphs, const std::vector<double>& weights,
                             const PlanRequest& request, std::int64_t budget_bytes);

}  // namespace cairn
