#include "sim/validator.h"

#include "graph/error.h"
#include "sim/validator_memory.h"
#include "sim/validator_order.h"

namespace cairn {

ValidationResult validate(const Graph& graph, const Plan& plan, const Schedule& schedule) {
  ValidationResult result = check_plan_structure(graph, plan);
  if (result.fault != Fault::kNone) return result;
  const std::vector<RegionRule> rules = derive_region_rules(graph, plan);
  result = check_keeps_are_read(graph, plan, rules);
  if (result.fault != Fault::kNone) return result;
  result = check_order(graph, plan, rules, schedule);
  if (result.fault != Fault::kNone) return result;
  return check_memory(graph, plan, rules, schedule);
}

std::string_view fault_name(Fault fault) {
  switch (fault) {
    case Fault::kNone: return "none";
    case Fault::kPlanOrder: return "plan order";
    case Fault::kPlanRegions: return "plan regions";
    case Fault::kPlanKeep: return "plan keep list";
    case Fault::kUselessKeep: return "useless keep";
    case Fault::kUnknownStep: return "unknown step";
    case Fault::kMissingCompute: return "missing Compute";
    case Fault::kRepeatedCompute: return "repeated Compute";
    case Fault::kComputeOutOfOrder: return "Compute out of order";
    case Fault::kBackwardWithoutGradient: return "Backward without gradient";
    case Fault::kMissingBackward: return "missing Backward";
    case Fault::kRepeatedBackward: return "repeated Backward";
    case Fault::kBackwardOutOfOrder: return "Backward out of order";
    case Fault::kRecomputeOutsideRegion: return "Recompute outside regions";
    case Fault::kRecomputeOfNever: return "Recompute of what may not run twice";
    case Fault::kReadOfDroppedCopy: return "read of a dropped copy";
    case Fault::kNeedlessRecompute: return "needless Recompute";
    case Fault::kRepeatedRecompute: return "repeated Recompute";
    case Fault::kMissingRecompute: return "missing Recompute";
    case Fault::kRecomputeAtWrongTrigger: return "Recompute at the wrong trigger";
    case Fault::kRecomputeOutOfOrder: return "Recompute out of order";
    case Fault::kFreeOfResident: return "free of an input or parameter";
    case Fault::kFreeOfUnmade: return "free of what is not made";
    case Fault::kFreeTooEarly: return "free too early";
    case Fault::kFreeTooLate: return "free too late";
    case Fault::kFreeTwice: return "free twice";
    case Fault::kMissingFree: return "missing free";
    case Fault::kGradientFreeOfLasting: return "free of a gradient that lasts";
    case Fault::kGradientFreeOfUnmade: return "free of a gradient that is not made";
    case Fault::kGradientFreeTooEarly: return "gradient freed too early";
    case Fault::kGradientFreeTooLate: return "gradient freed too late";
    case Fault::kGradientFreeTwice: return "gradient freed twice";
    case Fault::kMissingGradientFree: return "missing free of a gradient";
  }
  CAIRN_CHECK(false, "unknown fault");
}

}  // namespace cairn
