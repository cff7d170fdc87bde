#include "cli/run_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>

#include "cli/chosen_plan.h"
#include "cli/plan_report.h"
#include "cli/runnable.h"
#include "cli/units.h"
#include "executor/device_list.h"
#include "executor/workspaces.h"
#include "graph/error.h"
#include "models/gpu_catalogue.h"

namespace cairn {
namespace {

constexpr std::int64_t kKilo = 1000;

std::uint64_t parse_seed(const std::string& text) {
  if (text == "0") return 0;
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
  return {.plan = {.request = std::move(report.request),
                   .model = std::move(report.model),
                   .plan = std::move(report.answer->evaluation.plan)}};
}

Chosen chosen_plan(const RunOptions& options) {
  if (options.budget) return plan_within_budget(options);
  Chosen chosen{
      .plan = choose_plan({options.model, options.checkpointing, options.extent, options.plan})};
  check_runnable(chosen.plan.request);
  Graph& graph = chosen.plan.model.graph;
  graph = with_executor_workspaces(std::move(graph));
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

void compare_with_keep_all(Execution execution, RunReport& report) {
  execution.options.limit_bytes.reset();  // it is the plan that has to keep to it
  check_available(execution.device, "keeping everything",
                  report.reference_evaluation.trace.peak_bytes);
  report.reference = execute_plan(execution, report.reference_evaluation);
  report.loss_difference = loss_difference(report.executed, *report.reference);
  report.gradient_difference = gradient_difference(execution, report.evaluation, report.executed,
                                                   report.reference_evaluation, *report.reference);
}

}  // namespace

RunAnswer answer_run(const RunOptions& options) {
  const std::unique_ptr<Device> device = make_device(options.device);
  ExecutorOptions executor = executor_options(options);
  RunReport report{.device = device->name(),
                   .step_count = parse_count(options.steps, "--steps", kKilo),
                   .seed = executor.seed,
                   .limit_bytes = executor.limit_bytes};
  Chosen chosen = chosen_plan(options);
  if (!chosen.is_feasible) return {.verdict = std::move(chosen.verdict)};
  executor.optimizer = optimizer_settings(chosen.plan.request);
  if (options.learning_rate) {
    executor.optimizer.learning_rate = parse_factor(*options.learning_rate, "--learning-rate");
  }
  report.model = std::move(chosen.plan.model);
  report.notes = report.model.notes;
  std::optional<TextBatches> text;
  if (options.text) text.emplace(*options.text, report.model);
  const Graph& graph = report.model.graph;
  const Setting setting{.step = report.model.recipe.step};
  report.evaluation = evaluate_plan(graph, std::move(chosen.plan.plan), setting);
  const Plan& plan = report.evaluation.plan;
  // In the plan's order: sums of floating-point numbers depend on theirs.
  report.reference_evaluation = evaluate_plan(
      graph, {.algorithm = "none", .order = plan.order, .extent = plan.extent}, setting);
  check_available(*device, report.evaluation.name, report.evaluation.trace.peak_bytes);
  const Execution execution{.graph = graph,
                            .device = *device,
                            .options = executor,
                            .step_count = report.step_count,
                            .text = text ? &*text : nullptr};
  report.executed = execute_plan(execution, report.evaluation);
  if (!options.alone) compare_with_keep_all(execution, report);
  return {.report = std::move(report)};
}

bool holds(const RunReport& report) {
  const bool is_equal = !report.executed.bytes_difference && !report.loss_difference &&
                        !report.gradient_difference &&
                        !(report.reference && report.reference->bytes_difference);
  return is_equal && is_finite(report.executed);
}

double predicted_slowdown(const RunReport& report) {
  return slowdown(report.evaluation, report.reference_evaluation,
                  report.reference_evaluation.step_flops);
}

std::optional<double> measured_slowdown(const RunReport& report) {
  if (!report.reference || report.reference->step_ns <= 0) return std::nullopt;
  return static_cast<double>(report.executed.step_ns) /
             static_cast<double>(report.reference->step_ns) -
         1;
}

}  // namespace cairn
