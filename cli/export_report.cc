#include "cli/export_report.h"

#include <fmt/format.h>

#include "cli/budget.h"
#include "cli/chosen_plan.h"
#include "cli/version.h"
#include "graph/error.h"

namespace cairn {
namespace {

const std::optional<std::string> kEveryLayer = "every-layer";

bool names_plan(const ExportOptions& options) {
  return options.checkpointing ||
         named_plan_file({options.model, options.checkpointing, options.extent, options.plan});
}

// Checked before the work.
const ExportTarget& checked_target(const ExportOptions& options) {
  if (!options.target) {
    std::vector<std::string> names;
    for (const ExportTarget& target : export_targets()) names.emplace_back(target.name);
    throw InputError(
        fmt::format("--to: expected a target, found none; there are {}", join_names(names)));
  }
  if (options.budget && !options.best) {
    throw InputError("--budget: expected --best beside it; a plan is exported within its own peak");
  }
  return find_export_target(*options.target);
}

}  // namespace

void make_export_report(const ExportOptions& options, ExportReport& report) {
  const ExportTarget& target = checked_target(options);
  report.gpu = requested_gpu(options.gpu, options.model.folders);
  std::optional<BudgetRequest> budget;
  if (options.budget) {
    budget = parse_budget(*options.budget, folder_paths(options.model.folders));
  }
  const bool has_plan = names_plan(options);
  if (!has_plan && !options.best) {
    // That there is no such model is said first.
    choose_plan({options.model, kEveryLayer, options.extent, options.plan});
    throw InputError(options.model.model +
                     ": expected a plan file, --plan, --checkpointing or --best, found none");
  }
  if (!has_plan && !budget && !report.gpu) {
    throw InputError("--best: expected a plan, --budget or --gpu beside it, found none");
  }
  ChosenPlan chosen = choose_plan({options.model, has_plan ? options.checkpointing : kEveryLayer,
                                   options.extent, options.plan});
  report.model = std::move(chosen.model);
  ExportRequest request{
      .model = report.model.name,
      .library = report.model.library,
      .version = std::string(kVersion),
      .is_autocast = report.model.recipe.precision.autocast_type.has_value(),
      .setting = {.step = report.model.recipe.step, .device = report.gpu ? &*report.gpu : nullptr},
      .plan = std::move(chosen.plan),
      .is_best = options.best};
  if (budget) {
    Setting setting = request.setting;
    setting.extent = target.extent;
    request.budget_bytes =
        budget_bytes(*budget, evaluate(report.model.graph, {}, setting).trace.peak_bytes);
  } else if (options.best && !has_plan) {
    request.budget_bytes = capacity_bytes(*report.gpu);
  }
  report.answer = export_plan(report.model.graph, target, std::move(request));
}

}  // namespace cairn
