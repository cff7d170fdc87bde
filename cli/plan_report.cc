#include "cli/plan_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <future>
#include <memory>
#include <utility>

#include "cli/costs_option.h"
#include "cli/frozen_layers.h"
#include "cli/header.h"
#include "cli/plan_checks.h"
#include "cli/what_if.h"
#include "executor/workspaces.h"
#include "graph/checked.h"
#include "graph/error.h"
#include "models/shapes_file.h"
#include "planner/plan_for_shapes.h"

namespace cairn {
namespace {

// The models of all shapes; without --shapes one, of weight 1.
struct Shapes {
  std::vector<LoadedModel> models = {};
  std::vector<Graph> graphs = {};  // the same, in order; only of several
  std::vector<double> weights = {};
};

class Planning {
 public:
  explicit Planning(const PlanOptions& options)
      : options_(options), request_(model_request(options.model)) {}

  PlanReport report() {
    const CheckedPlanOptions checked = check_plan_options(options_);
    report_.strategy = checked.strategy;
    report_.target = checked.target;
    report_.extent = checked.extent;
    report_.budget = checked.budget;
    report_.gpu = checked.gpu;
    load();
    measure_keep_all();
    if (report_.budget) {
      report_.budget_bytes = budget_bytes(*report_.budget, report_.keep_all_peak_bytes);
    }
    if (has_to_checkpoint()) load_checkpointed();
    report_.pinned = pinned_tensors(report_.model.graph, options_.keep, options_.recompute);
    if (report_.budget) answer_budget();
    if (recomputes_unasked()) {
      load_checkpointed();
      report_.pinned = pinned_tensors(report_.model.graph, options_.keep, options_.recompute);
      answer_budget();
    }
    if (options_.compare) compare();
    if (options_.frontier) {
      report_.frontier = plan_frontier(report_.model.graph, request(report_.strategy));
    }
    add_notes();
    report_.request = request_;
    return std::move(report_);
  }

 private:
  void load() {
    opened_ = open_model(request_);
    if (!options_.shapes) {
      report_.model = load_opened_model(request_, *opened_);
      if (options_.for_executor) {
        report_.model.graph = with_executor_workspaces(std::move(report_.model.graph));
      }
      report_.costs = requested_costs(options_.costs, request_, report_.model);
      return;
    }
    load_shapes(read_document(*options_.shapes));
  }

  void load_shapes(const Document& document) {
    for (const BatchShape& shape : read_shapes(document)) {
      ModelRequest request = request_;
      request.batch = shape.batch.value_or(request.batch);
      if (shape.tokens) request.tokens = shape.tokens;
      LoadedModel model;
      try {
        model = load_opened_model(request, *opened_);
      } catch (const InputError& error) {
        fail_at(document, shape.position, fmt::format("this shape: {}", error.what()));
      }
      if (dim_value(model, "batch") == 0) {
        fail_at(document, shape.position, "a plain graph has no batch to be changed");
      }
      if (shape.tokens && dim_value(model, "tokens") == 0) {
        fail_at(document, shape.position, "samples of this model have no tokens");
      }
      report_.shapes.push_back({.batch = dim_value(model, "batch"),
                                .tokens = dim_value(model, "tokens"),
                                .weight = shape.weight});
      shapes_.graphs.push_back(model.graph);
      shapes_.models.push_back(std::move(model));
      shapes_.weights.push_back(shape.weight);
    }
  }

  Setting setting(Extent extent) const {
    return {.extent = extent,
            .step = request_.step,
            .device = report_.gpu ? &*report_.gpu : nullptr,
            .rest_ns = step_rest_ns()};
  }

  std::int64_t step_rest_ns() const {
    return report_.costs ? rest_ns(*report_.costs) : std::int64_t{0};
  }

  PlanRequest request(const Strategy& strategy) const {
    return {.strategy = strategy,
            .setting = setting(report_.extent),
            .target = report_.target,
            .keep = report_.pinned.keep,
            .recompute = report_.pinned.recompute};
  }

  std::int64_t step_cost_of(const Graph& graph) {
    const OpCosts costs = op_costs(graph, report_.gpu ? &*report_.gpu : nullptr);
    report_.unit = costs.unit;
    constexpr std::string_view kWhat = "cost of a step";
    return checked_add(checked_multiply(costs.step, request_.step.micro_batches, kWhat),
                       step_rest_ns(), kWhat);
  }

  void measure_keep_all() {
    if (shapes_.models.empty()) {
      const Evaluation keep_all = evaluate(report_.model.graph, {}, setting(report_.extent));
      report_.keep_all_peak_bytes = keep_all.trace.peak_bytes;
      if (keep_all.time) report_.keep_all_ns = keep_all.time->total_ns;
      report_.step_cost = step_cost_of(report_.model.graph);
    } else {
      measure_shapes();
    }
    report_.step_flops = step_flops(report_.model.graph, request_.step);
  }

  // Whether the plans that are looked for recompute something.
  bool has_to_checkpoint() const {
    if (!is_checkpointed(report_.strategy)) return false;
    return options_.frontier || options_.compare || !report_.budget ||
           report_.keep_all_peak_bytes > report_.budget_bytes;
  }

  // Whether all may be kept, but the plan recomputes what costs nothing.
  bool recomputes_unasked() const {
    return report_.answer && !request_.is_checkpointed &&
           !report_.answer->evaluation.plan.regions.empty();
  }

  // From here on all is of the graphs that checkpoints make.
  void load_checkpointed() {
    request_.is_checkpointed = true;
    if (!load_checkpointed_model(request_, *opened_, report_.model)) return;
    shapes_ = {};
    report_.shapes.clear();
    load();
    measure_keep_all();
  }

  void measure_shapes() {
    double cost = 0;
    double weight = 0;
    for (std::size_t i = 0; i < report_.shapes.size(); ++i) {
      PlannedShape& shape = report_.shapes[i];
      const Evaluation keep_all = evaluate(shapes_.graphs[i], {}, setting(report_.extent));
      shape.keep_all_peak_bytes = keep_all.trace.peak_bytes;
      shape.step_cost = step_cost_of(shapes_.graphs[i]);
      cost += shape.weight * static_cast<double>(shape.step_cost);
      weight += shape.weight;
      if (shape.keep_all_peak_bytes <= report_.keep_all_peak_bytes) continue;
      report_.keep_all_peak_bytes = shape.keep_all_peak_bytes;
      report_.model = shapes_.models[i];
    }
    report_.step_cost = static_cast<std::int64_t>(cost / weight);
  }

  PlanAnswer solve(const PlanRequest& request) const {
    if (shapes_.graphs.empty()) {
      return plan_for_budget(report_.model.graph, request, report_.budget_bytes);
    }
    return plan_for_shapes(shapes_.graphs, shapes_.weights, request, report_.budget_bytes).answer;
  }

  void answer_budget() {
    if (shapes_.graphs.empty()) {
      report_.answer = solve(request(report_.strategy));
    } else {
      answer_shapes();
    }
    if (!report_.answer->is_feasible && report_.strategy.algorithm != Algorithm::kAuto) {
      report_.automatic = solve(request({.algorithm = Algorithm::kAuto}));
    }
    if (report_.target != Target::kAny) cost_without_restriction();
    if (!report_.answer->is_feasible) advise();
  }

  void answer_shapes() {
    ShapesAnswer found = plan_for_shapes(shapes_.graphs, shapes_.weights, request(report_.strategy),
                                         report_.budget_bytes);
    for (std::size_t i = 0; i < report_.shapes.size(); ++i) {
      report_.shapes[i].peak_bytes = found.evaluations[i].trace.peak_bytes;
      report_.shapes[i].extra_cost = extra_cost(found.evaluations[i], found.answer.unit);
    }
    report_.model = shapes_.models[found.largest];
    report_.step_flops = step_flops(report_.model.graph, request_.step);
    report_.answer = std::move(found.answer);
  }

  void cost_without_restriction() {
    PlanRequest free = request(report_.strategy);
    free.target = Target::kAny;
    const auto cost = [&](Extent extent) -> std::optional<std::int64_t> {
      free.setting.extent = extent;
      const PlanAnswer answer = solve(free);
      if (!answer.is_feasible) return std::nullopt;
      return answer.extra_cost;
    };
    const Extent ideal = target_extent(Target::kAny);
    const auto own = report_.answer->is_feasible ? std::optional(report_.answer->extra_cost)
                                                 : std::optional<std::int64_t>();
    const std::optional<std::int64_t> same =
        runs_all_plans(report_.target) ? own : cost(report_.extent);
    report_.unrestricted = {.same_extent = same,
                            .ideal_extent = report_.extent == ideal ? same : cost(ideal)};
  }

  // Each algorithm on a thread of its own; the rows are in the order of their declaration.
  void compare() {
    std::vector<std::pair<std::string, std::future<PlanAnswer>>> running;
    for (std::string& name : algorithm_names()) {
      const bool is_uniform = name.ends_with(":K");
      const Strategy strategy =
          is_uniform ? Strategy{.algorithm = Algorithm::kUniform} : parse_algorithm(name);
      if (!runs_algorithm(report_.target, strategy.algorithm)) continue;
      running.emplace_back(std::move(name), std::async(std::launch::async, [this, strategy] {
                             return solve(request(strategy));
                           }));
    }
    for (auto& [name, future] : running) {
      ComparedAlgorithm row{.name = name};
      try {
        row.answer = future.get();
      } catch (const InputError& error) {
        row.refusal = error.what();
      }
      report_.compared.push_back(std::move(row));
    }
  }

  // The plan with the smallest peak of any algorithm.
  const PlanAnswer& smallest() const {
    return report_.automatic ? *report_.automatic : *report_.answer;
  }

  StrategyNumbers numbers_of(const Evaluation& evaluation) const {
    return {.name = evaluation.name,
            .peak_bytes = evaluation.trace.peak_bytes,
            .slowdown = cost_share(report_, extra_cost(evaluation, report_.unit)),
            .recompute_count = evaluation.trace.recompute_count};
  }

  // What would make it fit, as `cairn fit` says it.
  void advise() {
    if (smallest().is_feasible) return;  // another algorithm makes it fit
    const Graph& graph = report_.model.graph;
    const Evaluation& best = smallest().evaluation;
    const auto logits = static_cast<std::size_t>(MemoryCategory::kLogitsAndLoss);
    AdviceInput input{
        .capacity_bytes = report_.budget_bytes,
        .strategies = {numbers_of(evaluate(graph, {}, setting(report_.extent))), numbers_of(best)},
        .training_state_bytes = training_state_bytes(graph, request_.step),
        .logits_and_loss_bytes = best.trace.peak_breakdown[logits],
        .batch = dim_value(report_.model, "batch"),
        .tokens = dim_value(report_.model, "tokens")};
    if (!report_.model.recipe.precision.autocast_type) {
      input.losses_with_the_head = report_.model.losses_with_the_head;
    }
    input.gpus = gpus_that_fit(input.strategies, folder_paths(options_.model.folders));
    input.optimizers = optimizers_that_fit(what_if(best, input));
    if (shapes_.graphs.empty() && input.training_state_bytes <= report_.budget_bytes) {
      add_smaller_size(input);
    }
    report_.advice = advice(input);
  }

  WhatIf what_if(const Evaluation& evaluation, const AdviceInput& input) const {
    return {.request = request_,
            .opened = *opened_,
            .model = report_.model,
            .evaluations = no_evaluations_,
            .strategies = input.strategies,
            .evaluation = evaluation,
            .extent = report_.extent,
            .capacity_bytes = report_.budget_bytes};
  }

  // With every-layer, which needs no planning anew for each size.
  void add_smaller_size(AdviceInput& input) const {
    try {
      const Evaluation every_layer = evaluate(
          report_.model.graph, {.algorithm = Algorithm::kEveryLayer}, setting(report_.extent));
      const AdviceInput none{};
      input.smaller = smaller_size_that_fits(what_if(every_layer, none));
    } catch (const InputError&) {
      return;  // not for this graph
    }
  }

  void add_notes() {
    const auto add = [&](const std::string& note) {
      if (note.empty()) return;
      std::vector<std::string>& notes = report_.notes;
      if (std::find(notes.begin(), notes.end(), note) == notes.end()) notes.push_back(note);
    };
    for (const std::string& note : report_.model.notes) add(note);
    for (const std::string& note : frozen_layer_notes(report_.model.graph)) add(note);
    if (report_.answer) {
      for (const std::string& note : report_.answer->evaluation.schedule.warnings) add(note);
    }
    for (const ComparedAlgorithm& row : report_.compared) {
      if (!row.answer) add(fmt::format("{} is left out: {}", row.name, row.refusal));
    }
    if (report_.unit == CostUnit::kFlops && !report_.gpu) {
      add("costs are FLOPs, of which norms and the like have none: a plan that costs nothing may "
          "still take time, which --gpu NAME counts");
    }
    if (!report_.gpu) return;
    add(report_.gpu->note);
    if (!report_.costs) add(precision_note(report_.model, *report_.gpu));
    if (!report_.gpu->has_rates && report_.unit != CostUnit::kNanoseconds) {
      add("a bare size has no speed: what a plan costs is counted in " + cost_noun(report_.unit));
    }
  }

  const PlanOptions& options_;
  ModelRequest request_;
  std::shared_ptr<const OpenedModel> opened_ = {};
  Shapes shapes_ = {};
  std::vector<Evaluation> no_evaluations_ = {};
  PlanReport report_ = {};
};

}  // namespace

PlanReport plan_report(const PlanOptions& options) { return Planning(options).report(); }

}  // namespace cairn
