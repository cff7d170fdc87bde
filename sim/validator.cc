#include "sim/validator.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "graph/error.h"
#include "sim/validator_memory.h"
#include "sim/validator_order.h"
#include "sim/validator_training.h"

namespace cairn {
namespace {

ValidationResult plan_fault(Fault fault, std::string message) {
  return {.fault = fault, .message = std::move(message)};
}

// Positions are in the plan's order; `made_at` is by tensor.
ValidationResult check_regions(const std::vector<Region>& regions,
                               const std::vector<std::int32_t>& made_at, std::int32_t begin,
                               std::int32_t end, bool outermost) {
  for (const Region& region : regions) {
    const auto fault = [&](Fault kind, std::string_view why) {
      return plan_fault(kind, fmt::format("region [{}, {}) {}", region.begin, region.end, why));
    };
    if (region.begin < begin || region.end > end || region.begin >= region.end) {
      return fault(Fault::kPlanRegions, "is empty, or not behind its neighbour");
    }
    begin = region.end;
    if (!outermost && !region.keep.empty()) {
      return fault(Fault::kPlanKeep, "is not outermost and has a keep list");
    }
    for (const TensorId kept : region.keep) {
      const std::int32_t position =
          index(kept) < made_at.size() ? made_at[index(kept)] : kNoPosition;
      if (position < region.begin || position >= region.end) {
        return fault(Fault::kPlanKeep, "keeps what it does not make");
      }
    }
    ValidationResult inner = check_regions(region.inner, made_at, region.begin, region.end, false);
    if (inner.fault != Fault::kNone) return inner;
  }
  return {};
}

ValidationResult check_plan_structure(const Graph& graph, const Plan& plan) {
  std::vector<bool> ordered(graph.ops.size(), false);
  for (const OpId id : plan.order) {
    if (index(id) >= graph.ops.size() || ordered[index(id)]) {
      return plan_fault(Fault::kPlanOrder, "the order has an unknown op, or an op twice");
    }
    for (const TensorId input : graph.op(id).inputs) {
      const OpId producer = graph.tensor(input).producer;
      if (producer == kNoOp || ordered[index(producer)]) continue;
      return plan_fault(Fault::kPlanOrder,
                        fmt::format("op '{}' comes before its input '{}' is made",
                                    graph.op(id).name, graph.tensor(input).name));
    }
    ordered[index(id)] = true;
  }
  if (plan.order.size() != graph.ops.size()) {
    return plan_fault(Fault::kPlanOrder, "the order leaves ops out");
  }
  return check_regions(plan.regions, positions_of_makers(graph, plan), 0,
                       static_cast<std::int32_t>(plan.order.size()), true);
}

ValidationResult check_keeps_are_read(const Graph& graph, const Plan& plan,
                                      const std::vector<RegionRule>& rules) {
  std::vector<bool> read(graph.tensors.size(), false);
  for (const Op& op : graph.ops) {
    if (!op.has_backward) continue;
    for (const TensorId saved : op.saved) read[index(saved)] = true;
  }
  for (const RegionRule& rule : rules) {
    for (const OpId id : rule.ops) {
      for (const TensorId input : graph.op(id).inputs) read[index(input)] = true;
    }
  }
  for (const Region& region : plan.regions) {
    for (const TensorId kept : region.keep) {
      if (read[index(kept)]) continue;
      return plan_fault(
          Fault::kUselessKeep,
          fmt::format("no Backward and no Recompute reads the kept '{}'", graph.tensor(kept).name));
    }
  }
  return {};
}

}  // namespace

ValidationResult validate(const Graph& graph, const Plan& plan, const Schedule& schedule) {
  return validate_micro_batches(graph, plan, {{.schedule = &schedule}});
}

ValidationResult validate_micro_batches(const Graph& graph, const Plan& plan,
                                        const std::vector<MicroBatchSchedule>& micro_batches) {
  ValidationResult result = check_plan_structure(graph, plan);
  if (result.fault != Fault::kNone) return result;
  const std::vector<RegionRule> rules = derive_region_rules(graph, plan);
  result = check_keeps_are_read(graph, plan, rules);
  if (result.fault != Fault::kNone) return result;
  for (const auto& [schedule, around, first_step] : micro_batches) {
    ValidationResult here = check_order(graph, plan, rules, *schedule);
    if (here.fault == Fault::kNone) here = check_memory(graph, plan, rules, around, *schedule);
    here.step += first_step;
    here.peak_step += first_step;
    if (here.fault != Fault::kNone) return here;
    if (&around == &micro_batches.front().around || here.peak_bytes > result.peak_bytes) {
      result = std::move(here);
    }
  }
  return result;
}

std::string_view fault_name(Fault fault) {
  switch (fault) {
    case Fault::kNone:
      return "none";
    case Fault::kPlanOrder:
      return "plan order";
    case Fault::kPlanRegions:
      return "plan regions";
    case Fault::kPlanKeep:
      return "plan keep list";
    case Fault::kUselessKeep:
      return "useless keep";
    case Fault::kUnknownStep:
      return "unknown step";
    case Fault::kMissingCompute:
      return "missing Compute";
    case Fault::kRepeatedCompute:
      return "repeated Compute";
    case Fault::kComputeOutOfOrder:
      return "Compute out of order";
    case Fault::kBackwardWithoutGradient:
      return "Backward without gradient";
    case Fault::kMissingBackward:
      return "missing Backward";
    case Fault::kRepeatedBackward:
      return "repeated Backward";
    case Fault::kBackwardOutOfOrder:
      return "Backward out of order";
    case Fault::kRecomputeOutsideRegion:
      return "Recompute outside regions";
    case Fault::kRecomputeOfNever:
      return "Recompute of what may not run twice";
    case Fault::kReadOfDroppedCopy:
      return "read of a dropped copy";
    case Fault::kNeedlessRecompute:
      return "needless Recompute";
    case Fault::kRepeatedRecompute:
      return "repeated Recompute";
    case Fault::kMissingRecompute:
      return "missing Recompute";
    case Fault::kRecomputeAtWrongTrigger:
      return "Recompute at the wrong trigger";
    case Fault::kRecomputeOutOfOrder:
      return "Recompute out of order";
    case Fault::kFreeOfResident:
      return "free of an input or parameter";
    case Fault::kFreeOfUnmade:
      return "free of what is not made";
    case Fault::kFreeTooEarly:
      return "free too early";
    case Fault::kFreeTooLate:
      return "free too late";
    case Fault::kFreeTwice:
      return "free twice";
    case Fault::kMissingFree:
      return "missing free";
    case Fault::kGradientFreeOfLasting:
      return "free of a gradient that lasts";
    case Fault::kGradientFreeOfUnmade:
      return "free of a gradient that is not made";
    case Fault::kGradientFreeTooEarly:
      return "gradient freed too early";
    case Fault::kGradientFreeTooLate:
      return "gradient freed too late";
    case Fault::kGradientFreeTwice:
      return "gradient freed twice";
    case Fault::kMissingGradientFree:
      return "missing free of a gradient";
    case Fault::kMicroBatches:
      return "fewer or more micro-batches";
    case Fault::kOptimizerGroup:
      return "other parameters, or another loop, of the optimizer";
    case Fault::kMissingOptimizerStep:
      return "missing OptimizerStep";
    case Fault::kRepeatedOptimizerStep:
      return "repeated OptimizerStep";
    case Fault::kOptimizerStepAtWrongPlace:
      return "OptimizerStep at the wrong place";
  }
  CAIRN_CHECK(false, "unknown fault");
}

}  // namespace cairn
