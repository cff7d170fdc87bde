#pragma once

#include <optional>

#include "cli/budget.h"
#include "cli/plan_report.h"

// What `cairn plan` is asked, checked before any work.

namespace cairn {

struct CheckedPlanOptions {
  Strategy strategy = {};
  Target target = Target::kTorch;
  Extent extent = Extent::kNeeded;
  std::optional<BudgetRequest> budget = {};  // empty with --frontier alone
  std::optional<DeviceSpec> gpu = {};        // whose speed counts
};

// Throws InputError for values that are none, and for what contradicts each other.
CheckedPlanOptions check_plan_options(const PlanOptions& options);

}  // namespace cairn
