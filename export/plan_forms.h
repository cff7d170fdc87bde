#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "export/layer_plan.h"

// What kind of plan it is: what a trainer would have to be able to say to run it.

namespace cairn {

// From the least demanding on; a plan is of the last that is true of it.
enum class PlanKind {
  kNone,       // everything kept
  kAll,        // each layer alone
  kEveryKth,   // some layers, each alone: one in k
  kFirst,      // the first n
  kSet,        // any other
  kEqualRuns,  // all layers, k at a time; the last run may be shorter
  kRuns,       // any runs of whole layers
  kNested,     // regions inside regions of whole layers
  kKeepLists,  // regions of whole layers that keep some of what they make
  kParts,      // regions that are not whole layers
  kOtherOrder  // ops in another order than the model's
};

struct PlanForm {
  PlanKind kind = PlanKind::kNone;
  std::int64_t step = 0;   // k of kEveryKth and kEqualRuns
  std::int64_t first = 0;  // of kEveryKth: the first layer
  std::int64_t count = 0;  // n of kFirst
};

PlanForm plan_form(const LayerPlan& plan);

// The k of which the plan recomputes layers first, first + k, ... where `first` is 0, or k - 1;
// empty for any other plan, and for all or none.
enum class EveryKth { kNo, kFromFirst, kFromKth };
std::optional<std::int64_t> every_kth(const LayerPlan& plan, EveryKth phase);
// The n of which it recomputes the first, 0 and all included.
std::optional<std::int64_t> first_layers(const LayerPlan& plan);
// The k of which it recomputes all layers at a time.
std::optional<std::int64_t> equal_runs(const LayerPlan& plan);

// "every k-th layer": of the kind, for tables.
std::string_view plan_kind_name(PlanKind kind);

}  // namespace cairn
