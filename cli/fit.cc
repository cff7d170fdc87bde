#include "cli/fit.h"

#include <fmt/format.h>

#include <algorithm>
#include <future>
#include <utility>

#include "cli/frozen_layers.h"
#include "cli/header.h"
#include "cli/ways_to_train.h"
#include "cli/what_if.h"
#include "graph/error.h"

namespace cairn {
namespace {

constexpr Strategy kNone = {.algorithm = Algorithm::kNone};

void list_once(const std::string& text, std::vector<Strategy>& strategies) {
  const Strategy strategy = parse_strategy(text);
  const bool is_listed = std::any_of(
      strategies.begin(), strategies.end(),
      [&](const Strategy& other) { return strategy_name(other) == strategy_name(strategy); });
  if (!is_listed) strategies.push_back(strategy);
}

// The strategies worth a row: those asked for, behind "none" to compare with, or the usual ones and
// the recipe's own.
std::vector<Strategy> listed_strategies(const std::vector<std::string>& asked,
                                        const std::optional<std::string>& own, const Graph& graph) {
  std::vector<Strategy> strategies = {kNone};
  for (const std::string& text : asked) list_once(text, strategies);
  if (!asked.empty()) return strategies;
  strategies.push_back({.algorithm = Algorithm::kEveryLayer});
  const auto layer_count = static_cast<std::int64_t>(layer_ranges(graph).size());
  for (const std::int64_t layers : {2, 4}) {
    if (layers > layer_count) continue;
    strategies.push_back({.algorithm = Algorithm::kUniform, .layers_per_region = layers});
  }
  strategies.push_back({.algorithm = Algorithm::kSqrt});
  if (own) list_once(*own, strategies);
  return strategies;
}

Setting setting_of(const FitAnswer& answer) {
  return {.extent = answer.extent,
          .step = answer.model.recipe.step,
          .device = answer.gpu ? &*answer.gpu : nullptr};
}

// Of the graph that the strategy makes of the model.
Evaluation evaluate_as_run(const FitAnswer& answer, const Strategy& strategy,
                           const Setting& setting) {
  if (answer.checkpointed && is_checkpointed(strategy)) {
    Evaluation evaluation = evaluate(answer.checkpointed->graph, strategy, setting);
    if (!evaluation.plan.regions.empty()) return evaluation;
  }
  return evaluate(answer.model.graph, strategy, setting);
}

// Evaluates each strategy, each on a thread of its own; of the usual ones, those that make the plan
// of an earlier one are left out, and those that this graph does not allow (an in-place op
// overwrites what its recompute reads). A note says so. One that was asked for is an InputError.
void evaluate_strategies(const FitOptions& options, FitAnswer& answer) {
  const Graph& graph = answer.model.graph;
  const Setting setting = setting_of(answer);
  const bool was_asked_for = !options.checkpointing.empty();
  std::vector<std::pair<Strategy, std::future<Evaluation>>> running;
  for (const Strategy& strategy :
       listed_strategies(options.checkpointing, answer.own_strategy, graph)) {
    running.emplace_back(strategy, std::async(std::launch::async, [&, strategy] {
                           return evaluate_as_run(answer, strategy, setting);
                         }));
  }
  for (auto& [strategy, future] : running) {
    try {
      Evaluation evaluation = future.get();
      const auto same = std::find_if(
          answer.evaluations.begin(), answer.evaluations.end(),
          [&](const Evaluation& other) { return is_same_plan(other.plan, evaluation.plan); });
      if (same != answer.evaluations.end() && !was_asked_for) {
        answer.notes.push_back(
            fmt::format("{} makes the same plan as {} here", evaluation.name, same->name));
      } else {
        answer.evaluations.push_back(std::move(evaluation));
      }
    } catch (const InputError& error) {
      if (was_asked_for || strategy.algorithm == Algorithm::kNone) throw;
      answer.notes.push_back(
          fmt::format("{} is left out: {}", strategy_name(strategy), error.what()));
    }
  }
}

void add_notes(FitAnswer& answer) {
  const auto add = [&](const std::string& note) {
    if (std::find(answer.notes.begin(), answer.notes.end(), note) == answer.notes.end()) {
      answer.notes.push_back(note);
    }
  };
  if (answer.own_strategy) {
    add(fmt::format("recipe '{}' trains with {}", answer.model.recipe_name,
                    with_strategy(*answer.own_strategy)));
  }
  for (const std::string& note : answer.model.notes) add(note);
  for (const std::string& note : frozen_layer_notes(answer.model.graph)) add(note);
  if (answer.checkpointed) {
    for (const std::string& note : frozen_layer_notes(answer.checkpointed->graph)) {
      add("with checkpoints " + note);
    }
  }
  for (const Evaluation& evaluation : answer.evaluations) {
    for (const std::string& warning : evaluation.schedule.warnings) add(warning);
  }
  if (answer.gpu && !answer.gpu->note.empty()) add(answer.gpu->note);
  if (answer.gpu) {
    const std::string note = precision_note(answer.model, *answer.gpu);
    if (!note.empty()) add(note);
  }
  if (answer.gpu && !answer.gpu->has_rates && !answer.slowdown_is_time) {
    add("a bare size has no speed: what a strategy costs is counted in FLOPs");
  }
}

StrategyNumbers numbers_of(const FitAnswer& answer, const Evaluation& evaluation) {
  return strategy_numbers(evaluation, answer.evaluations.front(), answer.step_flops);
}

AdviceInput numbers_for_advice(const FitAnswer& answer) {
  AdviceInput input{
      .training_state_bytes = training_state_bytes(answer.model.graph, answer.model.recipe.step),
      .batch = dim_value(answer.model, "batch"),
      .tokens = dim_value(answer.model, "tokens")};
  if (!answer.model.recipe.precision.autocast_type) {  // which these losses are not known under
    input.losses_with_the_head = answer.model.losses_with_the_head;
  }
  if (answer.gpu) input.capacity_bytes = capacity_bytes(*answer.gpu);
  for (const Evaluation& evaluation : answer.evaluations) {
    input.strategies.push_back(numbers_of(answer, evaluation));
  }
  return input;
}

// Of the usual strategies, where only others were asked for, the cheapest that fits.
std::optional<StrategyNumbers> unlisted_that_fits(const FitOptions& options,
                                                  const FitAnswer& answer) {
  if (options.checkpointing.empty()) return std::nullopt;
  std::optional<StrategyNumbers> best;
  for (const Strategy& strategy : listed_strategies({}, answer.own_strategy, answer.model.graph)) {
    try {
      const StrategyNumbers numbers =
          numbers_of(answer, evaluate_as_run(answer, strategy, setting_of(answer)));
      if (!fits(numbers, answer.advice_input.capacity_bytes)) continue;
      if (!best || is_cheaper(numbers, *best)) best = numbers;
    } catch (const InputError&) {
      continue;  // not for this graph
    }
  }
  return best;
}

// Looks for what else would fit, as far as the advice has a use for it.
void ask_what_if(const FitOptions& options, const ModelRequest& request, const OpenedModel& opened,
                 FitAnswer& answer) {
  AdviceInput& input = answer.advice_input;
  const Evaluation& best = answer.evaluations[answer.recommended];
  const auto logits = static_cast<std::size_t>(MemoryCategory::kLogitsAndLoss);
  input.logits_and_loss_bytes = best.trace.peak_breakdown[logits];
  const bool it_fits = fits(input.strategies[answer.recommended], input.capacity_bytes);
  if (!input.capacity_bytes || !it_fits) {
    input.gpus = gpus_that_fit(input.strategies, folder_paths(options.model.folders));
  }
  if (!input.capacity_bytes) return;
  const WhatIf what_if{.request = request,
                       .opened = opened,
                       .model = model_of(answer, best),
                       .evaluations = answer.evaluations,
                       .strategies = input.strategies,
                       .evaluation = best,
                       .extent = answer.extent,
                       .capacity_bytes = *input.capacity_bytes};
  input.savings = options_that_save(what_if);
  if (it_fits) {
    input.larger = larger_batch_that_fits(what_if);
    return;
  }
  input.unlisted = unlisted_that_fits(options, answer);
  input.optimizers = optimizers_that_fit(what_if);
  if (input.training_state_bytes <= *input.capacity_bytes) {
    input.smaller = smaller_size_that_fits(what_if);
  }
}

// Where the user chose no way to train, the others beside what was asked for, which is full
// training. They are looked for while that is evaluated.
std::future<WaysToTrain> other_ways(const FitOptions& options, const OpenedModel& opened,
                                    const FitAnswer& answer) {
  if (answer.model.family.empty() || chooses_way_to_train(options.model)) return {};
  const WayQuestion question = {.options = options.model,
                                .extent = options.extent,
                                .opened = opened,
                                .model = answer.model,
                                .device = answer.gpu ? &*answer.gpu : nullptr};
  return std::async(std::launch::async, [question] { return ways_with_adapters(question); });
}

void add_ways(WaysToTrain others, FitAnswer& answer) {
  answer.advice_input.ways = std::move(others.ways);
  answer.notes.insert(answer.notes.end(), others.notes.begin(), others.notes.end());
  if (answer.advice_input.ways.empty()) return;
  answer.ways = {way_to_train("full", answer.model, answer.advice_input.strategies)};
  answer.ways.insert(answer.ways.end(), answer.advice_input.ways.begin(),
                     answer.advice_input.ways.end());
}

Resized resized_models(const ModelRequest& request, const OpenedModel& opened,
                       const LoadedModel& model) {
  const auto graph_with = [&](std::int64_t samples, std::int64_t tokens) -> std::optional<Graph> {
    ModelRequest more = request;
    more.batch += samples;
    if (tokens > 0) more.tokens = dim_value(model, "tokens") + tokens;
    try {
      return load_opened_model(more, opened).graph;
    } catch (const InputError&) {
      return std::nullopt;
    }
  };
  Resized resized;
  if (dim_value(model, "batch") > 0) resized.with_more_samples = graph_with(1, 0);
  if (dim_value(model, "tokens") > 0) resized.with_more_tokens = graph_with(0, 1);
  return resized;
}

}  // namespace

FitAnswer answer_fit(const FitOptions& options) {
  const ModelRequest request = model_request(options.model);
  FitAnswer answer{.gpu = requested_gpu(options.gpu, options.model.folders),
                   .extent = requested_extent(options.extent, request),
                   .own_strategy = request.recipe.checkpointing};
  for (const std::string& text : options.checkpointing) parse_strategy(text);  // before the work
  const std::shared_ptr<const OpenedModel> opened = open_model(request);
  answer.model = load_opened_model(request, *opened);
  answer.checkpointed = load_checkpointed_model(request, *opened, answer.model);
  answer.step_flops = step_flops(answer.model.graph, answer.model.recipe.step);
  answer.without_gradients = peak_without_gradients(answer.model.graph);
  std::future<WaysToTrain> others = other_ways(options, *opened, answer);
  evaluate_strategies(options, answer);
  answer.slowdown_is_time = answer.evaluations.front().time.has_value();
  add_notes(answer);
  answer.advice_input = numbers_for_advice(answer);
  answer.recommended =
      recommended_strategy(answer.advice_input.strategies, answer.advice_input.capacity_bytes);
  if (others.valid()) add_ways(others.get(), answer);
  ask_what_if(options, request, *opened, answer);
  if (options.explain) {
    const Evaluation& best = answer.evaluations[answer.recommended];
    ModelRequest same = request;
    same.is_checkpointed = !best.plan.regions.empty();
    answer.explanation =
        explained_terms(model_of(answer, best), best, resized_models(same, *opened, answer.model));
  }
  answer.verdict = verdict(answer.advice_input);
  answer.advice = advice(answer.advice_input);
  return answer;
}

const LoadedModel& model_of(const FitAnswer& answer, const Evaluation& evaluation) {
  const bool is_other = answer.checkpointed && !evaluation.plan.regions.empty();
  return is_other ? *answer.checkpointed : answer.model;
}

std::int64_t extra_flops(const FitAnswer& answer, const Evaluation& evaluation) {
  return evaluation.step_flops + evaluation.trace.recompute_flops - answer.step_flops;
}

std::vector<std::string> not_counted() {
  return {"allocator rounding and fragmentation", "several GPUs"};
}

}  // namespace cairn
