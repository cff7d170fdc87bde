#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/budget.h"
#include "cli/model_options.h"
#include "cli/pinned_tensors.h"
#include "graph/device_spec.h"
#include "graph/measured_costs.h"
#include "models/load_model.h"
#include "planner/plan_for_budget.h"

// `cairn plan` in three steps: check what is asked, answer it, print the answer as text, JSON, CSV
// or a drawing.

namespace cairn {

struct PlanOptions {
  ModelOptions model = {};
  std::optional<std::string> gpu = {};
  std::optional<std::string> costs = {};
  std::optional<std::string> budget = {};
  std::string algorithm = "auto";
  std::optional<std::string> target = {};
  std::optional<std::string> extent = {};
  std::vector<std::string> keep = {};
  std::vector<std::string> recompute = {};
  std::optional<std::string> shapes = {};
  bool compare = false;
  bool frontier = false;
  std::optional<std::string> output = {};
  std::optional<std::string> svg = {};
  bool json = false;
  bool csv = false;
  bool for_executor = false;  // workspaces are those of the executor's kernels
};

// One of the shapes of --shapes, with the plan that holds for all.
struct PlannedShape {
  std::int64_t batch = 0;
  std::int64_t tokens = 0;
  double weight = 1;
  std::int64_t keep_all_peak_bytes = 0;
  std::int64_t peak_bytes = 0;
  std::int64_t extra_cost = 0;
  std::int64_t step_cost = 0;
};

// What one algorithm makes of the budget.
struct ComparedAlgorithm {
  std::string name = {};
  std::optional<PlanAnswer> answer = {};  // empty: refused
  std::string refusal = {};
};

// What a plan costs where a target restricts nothing: with the extent of the target, and without.
struct UnrestrictedCosts {
  std::optional<std::int64_t> same_extent = {};  // empty: does not fit
  std::optional<std::int64_t> ideal_extent = {};
};

struct PlanReport {
  LoadedModel model = {};              // of several shapes the one with the largest peak
  ModelRequest request = {};           // that made it, where there are no shapes
  std::optional<DeviceSpec> gpu = {};  // whose speed it is, where nothing was measured
  std::optional<MeasuredCosts> costs = {};
  Strategy strategy = {.algorithm = Algorithm::kAuto};
  Target target = Target::kTorch;
  Extent extent = Extent::kNeeded;
  PinnedTensors pinned = {};
  CostUnit unit = CostUnit::kRecomputes;
  std::int64_t step_cost = 0;  // of a training step that recomputes nothing, in `unit`
  std::int64_t step_flops = 0;
  std::int64_t keep_all_peak_bytes = 0;          // of several shapes the largest
  std::optional<std::int64_t> keep_all_ns = {};  // a step of it

  std::optional<BudgetRequest> budget = {};
  std::int64_t budget_bytes = 0;
  std::optional<PlanAnswer> answer = {};     // there where a budget is
  std::optional<PlanAnswer> automatic = {};  // of `auto`, where another algorithm has no plan
  std::vector<PlannedShape> shapes = {};     // with --shapes
  std::optional<UnrestrictedCosts> unrestricted = {};  // of a restricting target
  std::vector<ComparedAlgorithm> compared = {};        // with --compare
  std::optional<Frontier> frontier = {};               // with --frontier
  std::vector<std::string> advice = {};                // where nothing fits
  std::vector<std::string> notes = {};
};

// Throws InputError.
PlanReport plan_report(const PlanOptions& options);

// 0.034: what it costs more than a step that recomputes nothing; 0 where steps cost nothing.
double cost_share(const PlanReport& report, std::int64_t extra_cost);
// "+3.4 %", or "7 recomputes" of graphs that state no costs.
std::string cost_text(const PlanReport& report, std::int64_t extra_cost);
// "time", "FLOPs", "recomputes".
std::string cost_noun(CostUnit unit);

// One sentence.
std::string plan_verdict(const PlanReport& report);

std::string plan_text(const PlanReport& report);
std::string plan_json(const PlanReport& report);
std::string frontier_text(const PlanReport& report);
std::string frontier_csv(const PlanReport& report);
std::string frontier_svg(const PlanReport& report);

}  // namespace cairn
