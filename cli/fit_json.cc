#include "cli/fit.h"
#include "cli/json.h"
#include "cli/phases.h"

// `cairn fit --json`: one object, every number exact.

namespace cairn {
namespace {

Json strategy_json(const FitAnswer& answer, std::size_t row) {
  const Evaluation& evaluation = answer.evaluations[row];
  const StrategyNumbers& numbers = answer.advice_input.strategies[row];
  const std::optional<std::int64_t> capacity = answer.advice_input.capacity_bytes;
  Json json;
  json["name"] = evaluation.name;
  json["peak_bytes"] = evaluation.trace.peak_bytes;
  json["fits"] = capacity ? Json(fits(numbers, capacity)) : Json();
  json["headroom_bytes"] = capacity ? Json(*capacity - numbers.peak_bytes) : Json();
  json["extra_flops"] = extra_flops(answer, evaluation);
  json["slowdown"] = numbers.slowdown;
  json["step_time_ns"] = evaluation.time ? Json(evaluation.time->total_ns) : Json();
  json["recompute_count"] = evaluation.trace.recompute_count;
  json["peak_at"] = peak_place(model_of(answer, evaluation).graph, evaluation);
  json["breakdown"] = breakdown_json(evaluation.trace);
  json["phases"] =
      phases_json(model_of(answer, evaluation).graph, evaluation, answer.without_gradients);
  return json;
}

void add_gpu(Json& document, const std::optional<DeviceSpec>& gpu) {
  document["gpu"] = gpu ? Json(gpu->id) : Json();
  document["gpu_name"] = gpu && !gpu->name.empty() ? Json(gpu->name) : Json();
  document["total_bytes"] = gpu ? Json(gpu->total_bytes) : Json();
  document["reserves"] = Json::array();
  if (gpu) {
    for (const MemoryReserve& reserve : gpu->reserves) {
      document["reserves"].push_back({{"what", reserve.what}, {"bytes", reserve.bytes}});
    }
  }
  document["capacity_bytes"] = gpu ? Json(capacity_bytes(*gpu)) : Json();
}

Json ways_json(const FitAnswer& answer) {
  const std::optional<std::int64_t> capacity = answer.advice_input.capacity_bytes;
  Json ways = Json::array();
  for (const WayToTrain& way : answer.ways) {
    Json json;
    json["name"] = way.name;
    json["recipe"] = way.recipe.empty() ? Json() : Json(way.recipe);
    json["options"] = way.options;
    json["trained_parameter_count"] = way.trained_count;
    json["training_state_bytes"] = way.training_state_bytes;
    json["strategies"] = Json::array();
    for (const StrategyNumbers& strategy : way.strategies) {
      json["strategies"].push_back({{"name", strategy.name},
                                    {"peak_bytes", strategy.peak_bytes},
                                    {"slowdown", strategy.slowdown},
                                    {"fits", capacity ? Json(fits(strategy, capacity)) : Json()}});
    }
    ways.push_back(std::move(json));
  }
  return ways;
}

}  // namespace

std::string fit_json(const FitAnswer& answer) {
  Json document = new_document();
  add_model(document, answer.model);
  document["extent"] = std::string(extent_name(answer.extent));
  add_gpu(document, answer.gpu);
  document["step_flops"] = answer.step_flops;
  document["slowdown_of"] = answer.slowdown_is_time ? "time" : "flops";
  document["strategies"] = Json::array();
  for (std::size_t i = 0; i < answer.evaluations.size(); ++i) {
    document["strategies"].push_back(strategy_json(answer, i));
  }
  document["ways_to_train"] = ways_json(answer);
  const std::optional<std::int64_t> capacity = answer.advice_input.capacity_bytes;
  const bool it_fits = fits(answer.advice_input.strategies[answer.recommended], capacity);
  document["fits"] = capacity ? Json(it_fits) : Json();
  document["recommended"] = it_fits ? Json(answer.evaluations[answer.recommended].name) : Json();
  document["verdict"] = answer.verdict.empty() ? Json() : Json(answer.verdict);
  document["advice"] = answer.advice;
  document["notes"] = answer.notes;
  if (!answer.explanation.empty()) {
    document["explanation"] = explanation_json(answer.explanation);
  }
  document["not_counted"] = not_counted();
  return json_text(document);
}

}  // namespace cairn
