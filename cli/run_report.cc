#include "cli/run_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>

#include "cli/chosen_plan.h"
#include "cli/plan_report.h"
#include "cli/runnable.h"
#include "cli/saved_tensors.h"
#include "cli/units.h"
#include "executor/device_list.h"
#include "executor/workspaces.h"
#include "graph/error.h"
#include "models/gpu_catalogue.h"

namespace cairn {
namespace {

constexpr std::int64_t kKilo = 1000;

std::uint64_t parse_seed(const std::string& text) {
  return static_cast<std::uint64_t>(parse_count(text, "--seed", kKilo));
}

ExecutorOptions executor_options(const RunOptions& options) {
  ExecutorOptions parsed{.seed = parse_seed(options.seed), .poisons_freed = options.poison};
  if (options.limit) parsed.limit_bytes = parse_bytes(*options.limit, "--limit");
  return parsed;
}

// One plan with the model that it is for, ready to be run; empty where none fits the budget.
struct Chosen {
  ChosenPlan plan = {};
  Graph graph = {};  // the model's, with the workspaces of the executor's kernels
  bool is_feasible = true;
  std::string verdict = {};
};

Chosen plan_within_budget(const RunOptions& options) {
  const PlanChoice choice{options.model, options.checkpointing, options.extent, options.plan};
  if (named_plan_file(choice)) {
    throw InputError("--budget and a plan file: expected one of them, found both");
  }
  if (options.checkpointing) {
    throw InputError("--budget and --checkpointing: expected one of them, found both");
  }
  check_runnable(model_request(options.model));
  PlanReport report = plan_report({.model = options.model,
                                   .budget = options.budget,
                                   .extent = options.extent,
                                   .for_executor = true});
  if (!report.answer->is_feasible) {
    return {.is_feasible = false, .verdict = plan_verdict(report)};
  }
  LoadedModel model = load_model(report.request);
  return {.plan = {.request = std::move(report.request),
                   .model = std::move(model),
                   .plan = std::move(report.answer->evaluation.plan)},
          .graph = std::move(report.model.graph)};
}

Chosen chosen_plan(const RunOptions& options) {
  if (options.budget) return plan_within_budget(options);
  Chosen chosen{
      .plan = choose_plan({options.model, options.checkpointing, options.extent, options.plan})};
  check_runnable(chosen.plan.request);
  chosen.graph = with_executor_workspaces(chosen.plan.model.graph);
  return chosen;
}

bool is_same_number(double a, double b) { return std::memcmp(&a, &b, sizeof(a)) == 0; }

std::optional<LossDifference> loss_difference(const ExecutedPlan& executed,
                                              const ExecutedPlan& reference) {
  const std::size_t count = std::min(executed.losses.size(), reference.losses.size());
  for (std::size_t i = 0; i < count; ++i) {
    if (is_same_number(executed.losses[i], reference.losses[i])) continue;
    return LossDifference{.training_step = static_cast<std::int64_t>(i) + 1,
                          .loss = executed.losses[i],
                          .reference_loss = reference.losses[i]};
  }
  return std::nullopt;
}

Slowdowns slowdowns(const RunReport& report) {
  Slowdowns slowdowns{.by_flops = slowdown(report.evaluation, report.reference_evaluation,
                                           report.reference_evaluation.step_flops)};
  if (!report.reference || report.reference->step_ns <= 0) return slowdowns;
  slowdowns.by_times = predicted_slowdown(report.graph, report.evaluation.schedule,
                                          report.reference_evaluation.schedule, *report.costs);
  slowdowns.measured = static_cast<double>(report.executed.step_ns) /
                           static_cast<double>(report.reference->step_ns) -
                       1;
  return slowdowns;
}

void evaluate_both(Plan plan, RunReport& report) {
  const Setting setting{.step = report.model.recipe.step};
  // In the plan's order: sums of floating-point numbers depend on theirs.
  Plan reference{.algorithm = "none", .order = plan.order, .extent = plan.extent};
  report.evaluation = evaluate_plan(report.graph, std::move(plan), setting);
  report.reference_evaluation = evaluate_plan(report.graph, std::move(reference), setting);
}

void compare_with_keep_all(Execution execution, RunReport& report) {
  execution.options.limit_bytes.reset();  // it is the plan that has to keep to it
  report.reference =
      execute_plan(execution, simulated_plan(report.graph, report.reference_evaluation));
  report.costs = measured_costs(report.graph, report.reference_evaluation.schedule,
                                report.reference->timed, report.device);
  report.loss_difference = loss_difference(report.executed, *report.reference);
  report.gradient_difference =
      gradient_difference(execution, report.evaluation.schedule, report.executed,
                          report.reference_evaluation.schedule, *report.reference);
}

}  // namespace

RunAnswer answer_run(const RunOptions& options) {
  if (options.alone && options.profile) {
    throw InputError("--alone and --profile: it is keeping everything whose ops are timed");
  }
  const std::unique_ptr<Device> device = make_device(options.device);
  ExecutorOptions executor = executor_options(options);
  RunReport report{.device = device->name(),
                   .step_count = parse_count(options.steps, "--steps", kKilo),
                   .seed = executor.seed,
                   .limit_bytes = executor.limit_bytes};
  std::optional<double> learning_rate;
  if (options.learning_rate) {
    learning_rate = parse_factor(*options.learning_rate, "--learning-rate");
  }
  Chosen chosen = chosen_plan(options);
  if (!chosen.is_feasible) return {.verdict = std::move(chosen.verdict)};
  executor.optimizer = optimizer_settings(chosen.plan.request);
  if (learning_rate) executor.optimizer.learning_rate = *learning_rate;
  report.request = std::move(chosen.plan.request);
  report.model = std::move(chosen.plan.model);
  report.graph = std::move(chosen.graph);
  report.notes = report.model.notes;
  std::optional<TextBatches> text;
  if (options.text) text.emplace(*options.text, report.model);
  evaluate_both(std::move(chosen.plan.plan), report);
  check_available(*device, report.evaluation.name, report.evaluation.trace.peak_bytes, "");
  if (!options.alone) {
    check_available(*device, "keeping everything", report.reference_evaluation.trace.peak_bytes,
                    "; --alone leaves it out");
  }
  const Execution execution{.graph = report.graph,
                            .device = *device,
                            .options = executor,
                            .step_count = report.step_count,
                            .text = text ? &*text : nullptr};
  if (options.save_tensors) save_tensors(execution, report.evaluation, *options.save_tensors);
  report.executed = execute_plan(execution, simulated_plan(report.graph, report.evaluation));
  if (!options.alone) compare_with_keep_all(execution, report);
  report.slowdowns = slowdowns(report);
  return {.report = std::move(report)};
}

bool holds(const RunReport& report) {
  const bool is_equal = !report.executed.bytes_difference && !report.loss_difference &&
                        !report.gradient_difference &&
                        !(report.reference && report.reference->bytes_difference);
  return is_equal && is_finite(report.executed);
}

}  // namespace cairn
