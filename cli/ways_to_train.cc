#include "cli/ways_to_train.h"

#include <fmt/format.h>

#include <future>
#include <utility>

#include "cli/table.h"
#include "cli/units.h"
#include "cli/what_if.h"
#include "graph/error.h"
#include "models/recipe_file.h"

namespace cairn {
namespace {

struct KnownWay {
  std::string name = {};    // "QLoRA"
  std::string recipe = {};  // "qlora"
};

std::vector<KnownWay> known_ways(const std::string& library) {
  std::vector<KnownWay> ways;
  for (const RecipeFile& recipe : list_recipes({})) {
    const ModelRequest& training = recipe.training;
    if (!training.adapters || recipe.training.recipe.needs_several_gpus ||
        training.library != library)
      continue;
    ways.push_back({.name = training.quantization ? "QLoRA" : "LoRA", .recipe = recipe.name});
  }
  return ways;
}

// Options in place of the recipe's.
struct Attempt {
  std::string precision = {};
  std::vector<std::string> targets = {};
};

// The recipe as it is, then with other layers, then the same without autocast. Attention's layers
// are what PEFT takes of most model types.
std::vector<Attempt> attempts(const ModelOptions& typed) {
  std::vector<std::string> precisions = {""};
  if (!typed.precision) precisions.emplace_back("bf16");
  std::vector<Attempt> attempts;
  for (const std::string& precision : precisions) {
    attempts.push_back({.precision = precision});
    attempts.push_back({.precision = precision, .targets = {"all-linear"}});
    attempts.push_back({.precision = precision, .targets = {"q_proj", "v_proj"}});
  }
  return attempts;
}

std::string options_text(const Attempt& attempt) {
  std::string text;
  if (!attempt.precision.empty()) text += " --precision " + attempt.precision;
  for (const std::string& target : attempt.targets) text += " --lora-targets " + target;
  return text.empty() ? text : text.substr(1);
}

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

// A model with the first options that go with it.
struct LoadedWay {
  ModelRequest request = {};
  LoadedModel model = {};
  std::string options = {};
  std::string reason = {};  // why it has them
};

// Throws the InputError of the recipe as it is where no options help.
LoadedWay loaded_way(const WayQuestion& question, const KnownWay& known) {
  LoadedWay way;
  for (const Attempt& attempt : attempts(question.options)) {
    ModelOptions options = question.options;
    options.recipe = known.recipe;
    if (!attempt.precision.empty()) options.precision = attempt.precision;
    options.adapters.targets = attempt.targets;
    try {
      way.request = model_request(options);
      way.model = load_opened_model(way.request, question.opened);
      way.options = options_text(attempt);
      return way;
    } catch (const InputError& error) {
      if (way.reason.empty()) way.reason = first_line(error.what());
    }
  }
  throw InputError(way.reason);
}

struct EvaluatedWay {
  WayToTrain way = {};
  std::string note = {};
};

EvaluatedWay evaluated_way(const WayQuestion& question, const KnownWay& known) {
  const LoadedWay loaded = loaded_way(question, known);
  const LoadedModel& model = loaded.model;
  const Setting setting = {.extent = requested_extent(question.extent, loaded.request),
                           .step = model.recipe.step,
                           .device = question.device};
  const std::optional<LoadedModel> checkpointed =
      load_checkpointed_model(loaded.request, question.opened, model);
  std::future<Evaluation> first = std::async(std::launch::async, [&] {
    return evaluate(model.graph, {.algorithm = Algorithm::kNone}, setting);
  });
  const Evaluation every_layer = evaluate(checkpointed ? checkpointed->graph : model.graph,
                                          {.algorithm = Algorithm::kEveryLayer}, setting);
  const Evaluation none = first.get();
  const std::int64_t flops = step_flops(model.graph, model.recipe.step);
  std::vector<StrategyNumbers> strategies;
  for (const Evaluation* const evaluation : {&none, &every_layer}) {
    strategies.push_back(strategy_numbers(*evaluation, none, flops));
  }
  EvaluatedWay evaluated{.way = way_to_train(known.name, model, std::move(strategies))};
  evaluated.way.recipe = known.recipe;
  evaluated.way.options = loaded.options;
  if (!loaded.options.empty()) {
    evaluated.note = fmt::format("{} ({}) is shown with {}: {}", known.name, known.recipe,
                                 loaded.options, loaded.reason);
  }
  return evaluated;
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

WaysToTrain ways_with_adapters(const WayQuestion& question) {
  const std::string& library = question.model.library;
  const std::vector<KnownWay> ways = known_ways(library);
  std::vector<std::future<EvaluatedWay>> running;
  for (const KnownWay& known : ways) {
    running.push_back(
        std::async(std::launch::async, [&] { return evaluated_way(question, known); }));
  }
  WaysToTrain answer;
  const bool is_of_text = dim_value(question.model, "tokens") > 0;
  if (ways.empty() && is_of_text) {
    answer.notes.push_back(fmt::format(
        "LoRA and QLoRA are left out: no recipe has adapters beside the layers of family '{}'",
        question.model.family));
  }
  for (std::size_t i = 0; i < ways.size(); ++i) {
    try {
      EvaluatedWay evaluated = running[i].get();
      answer.ways.push_back(std::move(evaluated.way));
      if (!evaluated.note.empty()) answer.notes.push_back(std::move(evaluated.note));
    } catch (const InputError& error) {
      answer.notes.push_back(fmt::format("{} ({}) is left out: {}", ways[i].name, ways[i].recipe,
                                         first_line(error.what())));
    }
  }
  return answer;
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
