#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "graph/graph.h"
#include "planner/evaluation.h"
#include "planner/op_costs.h"

// Which plan of a list fits a budget: the simulator says, for as few of them as will do.

namespace cairn {

// What an algorithm expects of one of its plans.
struct ExpectedPlan {
  std::int64_t need_bytes = 0;  // its peak
  std::int64_t extra_cost = 0;
};

// An algorithm's plans by rising expected cost and falling expected peak.
struct PlanList {
  std::vector<ExpectedPlan> expected = {};
  std::function<Plan(std::size_t)> plan_of = {};
};

// A plan with its true peak and cost.
struct TriedPlan {
  std::int64_t peak_bytes = 0;
  std::int64_t extra_cost = 0;
  Plan plan = {};
};

// Lowers and simulates plans of one graph.
class PlanTrials {
 public:
  PlanTrials(const Graph& graph, const Setting& setting, const OpCosts& costs)
      : graph_(graph), setting_(setting), costs_(costs) {}

  TriedPlan try_plan(Plan plan);
  // Its cost alone, which takes no simulation.
  std::int64_t cost_of(const Plan& plan) const;
  // Each of them, in order, on several threads.
  std::vector<TriedPlan> try_plans(std::vector<Plan> plans);
  std::int64_t plan_count() const { return plan_count_; }

 private:
  TriedPlan tried(Plan plan) const;

  const Graph& graph_;
  const Setting& setting_;
  const OpCosts& costs_;
  std::int64_t plan_count_ = 0;
};

// The cheapest plan of the list whose peak is within the budget, as far as true peaks fall where
// expected ones do; empty when the last does not fit either.
std::optional<TriedPlan> cheapest_within(const PlanList& plans, std::int64_t budget_bytes,
                                         PlanTrials& trials);

}  // namespace cairn
