#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "export/layer_plan.h"
#include "export/target.h"
#include "graph/graph.h"
#include "graph/plan.h"
#include "planner/evaluation.h"
#include "planner/op_costs.h"

// A plan on its way to a trainer.
//
//   can the trainer say it?   yes: exact
//                             no:  the cheapest plan that it can say, of the same peak or less:
//                                  approximated; where there is none: refused
//
// Whatever is exported is a Plan, and its peak and cost are the simulator's, with the extent of the
// trainer's recomputes.

namespace cairn {

struct ExportRequest {
  std::string model = {};    // its name
  std::string library = {};  // whose code it is: "hf"; "" where not known
  std::string version = {};  // of cairn
  bool is_autocast = false;
  Setting setting = {};  // but for the extent: those of the plan and of the target are taken
  Plan plan = {};
  std::optional<std::int64_t> budget_bytes = {};  // default: the peak of `plan`
  bool is_best = false;  // the best plan that the trainer can say, whatever `plan` is
};

enum class ExportVerdict { kExact, kApproximated, kRefused };

struct PricedPlan {
  LayerPlan layers = {};
  Evaluation evaluation = {};
  double slowdown = 0;  // 0.24: a step takes 24 % longer than with everything kept
};

struct ExportAnswer {
  const ExportTarget* target = nullptr;
  const Graph* graph = nullptr;
  ExportRequest request = {};
  ExportVerdict verdict = ExportVerdict::kRefused;
  std::string reason = {};                // why it is not exact
  PricedPlan chosen = {};                 // what was asked for, with its own extent
  PricedPlan exported = {};               // what the trainer will run; refused: of the least peak
  std::optional<PricedPlan> freest = {};  // with is_best: without the trainer's limits
  bool is_in_time = false;                // slowdowns are of time, else of FLOPs
  std::int64_t limit_bytes = 0;           // of the peak
  std::int64_t keep_all_peak_bytes = 0;
  // Forwards in a forward and backward pass: by layer, and of modules that are regions, or with
  // others a region, inside of layers or outside.
  std::vector<std::int64_t> layer_runs = {};
  std::vector<std::pair<std::string, std::int64_t>> module_runs = {};
  std::vector<std::string> traps = {};
  std::string text = {};  // "" where refused
};

// "exact", "approximated", "refused".
std::string_view export_verdict_name(ExportVerdict verdict);

// Keeps a reference to the graph. Throws InputError where the plan does not fit the graph.
ExportAnswer export_plan(const Graph& graph, const ExportTarget& target, ExportRequest request);

}  // namespace cairn
