#include "cli/ways_to_train.h"

#include <fmt/format.h>

#include <array>
#include <future>
#include <utility>

#include "cli/table.h"
#include "cli/units.h"
#include "cli/what_if.h"
#include "graph/error.h"

namespace cairn {
namespace {

struct KnownWay {
  std::string_view name = {};
  std::string_view recipe = {};
};

constexpr std::array<KnownWay, 2> kWays = {{{"LoRA", "hf-lora"}, {"QLoRA", "qlora"}}};

WayToTrain evaluated_way(const WayQuestion& question, const KnownWay& known) {
  ModelOptions options = question.options;
  options.recipe = std::string(known.recipe);
  const ModelRequest request = model_request(options);
  const LoadedModel model = load_opened_model(request, question.opened);
  const Setting setting = {.extent = requested_extent(question.extent, request),
                           .step = model.recipe.step,
                           .device = question.device};
  const Evaluation none = evaluate(model.graph, {.algorithm = Algorithm::kNone}, setting);
  const std::optional<LoadedModel> checkpointed =
      load_checkpointed_model(request, question.opened, model);
  const Evaluation every_layer = evaluate(checkpointed ? checkpointed->graph : model.graph,
                                          {.algorithm = Algorithm::kEveryLayer}, setting);
  const std::int64_t flops = step_flops(model.graph, model.recipe.step);
  std::vector<StrategyNumbers> strategies;
  for (const Evaluation* const evaluation : {&none, &every_layer}) {
    strategies.push_back(strategy_numbers(*evaluation, none, flops));
  }
  WayToTrain way = way_to_train(std::string(known.name), model, std::move(strategies));
  way.recipe = known.recipe;
  return way;
}

const StrategyNumbers* strategy_of(const WayToTrain& way, std::string_view name) {
  for (const StrategyNumbers& strategy : way.strategies) {
    if (strategy.name == name) return &strategy;
  }
  return nullptr;
}

std::string way_name(const WayToTrain& way) {
  return way.recipe.empty() ? way.name : fmt::format("{} ({})", way.name, way.recipe);
}

// "17.8 GiB +25 %".
std::string peak_cell(const StrategyNumbers* strategy) {
  if (strategy == nullptr) return "-";
  const std::string peak = bytes_text(strategy->peak_bytes);
  return strategy->name == "none"
             ? peak
             : fmt::format("{} {:>5}", peak, increase_text(strategy->slowdown));
}

}  // namespace

bool chooses_way_to_train(const ModelOptions& options) {
  const ModelRequest request = model_request(options);
  return options.recipe || request.adapters || request.quantization || !request.freeze.empty() ||
         !request.train_only.empty();
}

StrategyNumbers strategy_numbers(const Evaluation& evaluation, const Evaluation& none,
                                 std::int64_t none_flops) {
  return {.name = evaluation.name,
          .peak_bytes = evaluation.trace.peak_bytes,
          .slowdown = slowdown(evaluation, none, none_flops),
          .recompute_count = evaluation.trace.recompute_count};
}

WayToTrain way_to_train(const std::string& name, const LoadedModel& model,
                        std::vector<StrategyNumbers> strategies) {
  return {.name = name,
          .trained_count = trainable_parameter_count(model.graph),
          .training_state_bytes = training_state_bytes(model.graph, model.recipe.step),
          .strategies = std::move(strategies)};
}

std::vector<WayToTrain> ways_with_adapters(const WayQuestion& question) {
  std::vector<std::future<WayToTrain>> running;
  for (const KnownWay& known : kWays) {
    running.push_back(
        std::async(std::launch::async, [&] { return evaluated_way(question, known); }));
  }
  std::vector<WayToTrain> ways;
  for (std::future<WayToTrain>& way : running) {
    try {
      ways.push_back(way.get());
    } catch (const InputError&) {
      continue;  // not for this model
    }
  }
  return ways;
}

std::string ways_text(const std::vector<WayToTrain>& ways,
                      std::optional<std::int64_t> capacity_bytes) {
  Table table{.columns = {{"to train\n(--recipe)"},
                          {"trained", Align::kRight},
                          {"states", Align::kRight},
                          {"peak", Align::kRight},
                          {"every layer\ncheckpointed", Align::kRight}}};
  if (capacity_bytes) table.columns.push_back({"fits"});
  for (const WayToTrain& way : ways) {
    std::vector<std::string> row = {
        way_name(way), rounded_text(way.trained_count), bytes_text(way.training_state_bytes),
        peak_cell(strategy_of(way, "none")), peak_cell(strategy_of(way, "every-layer"))};
    if (capacity_bytes) {
      const StrategyNumbers& best =
          way.strategies[recommended_strategy(way.strategies, capacity_bytes)];
      row.emplace_back(!fits(best, capacity_bytes) ? "no"
                       : best.name == "none"       ? "yes"
                                                   : "checkpointed");
    }
    table.rows.push_back(std::move(row));
  }
  return table_text(table);
}

}  // namespace cairn
