#include "planner/budget_search.h"

#include <algorithm>
#include <future>

#include "graph/checked.h"
#include "graph/recompute_sets.h"
#include "graph/region_tree.h"
#include "sim/simulator.h"

namespace cairn {
namespace {

std::int64_t recompute_cost(const Schedule& schedule, const OpCosts& costs) {
  std::int64_t cost = 0;
  for (const Step& step : schedule.steps) {
    if (step.kind != StepKind::kRecompute) continue;
    const std::int64_t once = costs.forward[index(step.op)];
    cost = checked_add(cost, checked_multiply(once, times_run(schedule, step), "recompute"),
                       "recompute");
  }
  return cost;
}

}  // namespace

TriedPlan PlanTrials::tried(Plan plan) const {
  const Schedule schedule = lower_training_step(graph_, setting_.step, lower(graph_, plan));
  return {.peak_bytes = simulated_peak_bytes(graph_, schedule),
          .extra_cost = recompute_cost(schedule, costs_),
          .plan = std::move(plan)};
}

std::int64_t PlanTrials::cost_of(const Plan& plan) const {
  const RecomputeSets sets = recompute_sets(graph_, plan, flatten_regions(graph_, plan));
  std::int64_t cost = 0;
  for (const std::vector<OpId>& ops : sets.ops_of_frame) {
    for (const OpId op : ops) cost = checked_add(cost, costs_.forward[index(op)], "recompute");
  }
  return checked_multiply(cost, setting_.step.micro_batches, "recompute");
}

TriedPlan PlanTrials::try_plan(Plan plan) {
  ++plan_count_;
  return tried(std::move(plan));
}

std::vector<TriedPlan> PlanTrials::try_plans(std::vector<Plan> plans) {
  plan_count_ += static_cast<std::int64_t>(plans.size());
  std::vector<TriedPlan> results(plans.size());
  const auto try_every_second = [&](std::size_t first) {
    for (std::size_t i = first; i < plans.size(); i += 2) results[i] = tried(std::move(plans[i]));
  };
  std::future<void> odd = std::async(std::launch::async, try_every_second, std::size_t{1});
  try_every_second(0);
  odd.get();
  return results;
}

std::optional<TriedPlan> cheapest_within(const PlanList& plans, std::int64_t budget_bytes,
                                         PlanTrials& trials) {
  const std::size_t count = plans.expected.size();
  if (count == 0) return std::nullopt;
  std::optional<TriedPlan> best;
  const auto fits = [&](std::size_t i) {
    TriedPlan tried = trials.try_plan(plans.plan_of(i));
    if (tried.peak_bytes > budget_bytes) return false;
    if (!best || tried.extra_cost < best->extra_cost) best = std::move(tried);
    return true;
  };
  // [low, high): what does not fit, and the first known to fit.
  std::size_t high = 0;
  while (high + 1 < count && plans.expected[high].need_bytes > budget_bytes) ++high;
  std::size_t low = 0;
  if (fits(high)) {
    for (std::size_t step = 1; high > low; step *= 2) {
      const std::size_t next = high - std::min(step, high - low);
      if (!fits(next)) {
        low = next + 1;
        break;
      }
      high = next;
    }
  } else {
    for (std::size_t step = 1;; step *= 2) {
      low = high + 1;
      if (low >= count) return best;
      high = std::min(high + step, count - 1);
      if (fits(high)) break;
      if (high + 1 == count) return best;
    }
  }
  while (low < high) {
    const std::size_t middle = low + (high - low) / 2;
    if (fits(middle)) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return best;
}

}  // namespace cairn
