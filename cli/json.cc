#include "cli/json.h"

#include <algorithm>

#include "cli/version.h"
#include "cli/what_if.h"
#include "models/training_keys.h"

namespace cairn {
namespace {

// null for what the model does not have.
Json count_or_null(std::int64_t count) { return count > 0 ? Json(count) : Json(); }

Json text_or_null(const std::string& text) { return text.empty() ? Json() : Json(text); }

Json value_json(const Value& value) {
  switch (value.kind) {
    case ValueKind::kInteger:
      return value.integer;
    case ValueKind::kNumber:
      return value.number;
    case ValueKind::kText:
      return value.text;
  }
  return {};
}

std::string_view dim_origin_name(DimOrigin origin) {
  switch (origin) {
    case DimOrigin::kFile:
      return "file";
    case DimOrigin::kOption:
      return "option";
    case DimOrigin::kDefault:
      return "default";
    case DimOrigin::kDerived:
      return "derived";
  }
  return {};
}

Json type_or_null(const std::optional<DataType>& type) {
  return type ? Json(std::string(data_type_name(*type))) : Json();
}

Json quantization_json(const std::optional<Quantization>& quantization) {
  if (!quantization) return {};
  return {{"format", std::string(quantized_format_name(quantization->format))},
          {"double", quantization->is_double},
          {"compute", type_or_null(quantization->compute_type)},
          {"skip", quantization->skipped_modules}};
}

}  // namespace

Json new_document() { return {{"schema", 1}, {"cairn", kVersion}}; }

std::string category_key(MemoryCategory category) {
  std::string key(memory_category_name(category));
  std::replace(key.begin(), key.end(), ' ', '_');
  return key;
}

Json breakdown_json(const Trace& trace) {
  Json breakdown = Json::object();
  for (std::size_t i = 0; i < kMemoryCategoryCount; ++i) {
    const auto category = static_cast<MemoryCategory>(i);
    breakdown[category_key(category)] = trace.peak_breakdown[i];
  }
  return breakdown;
}

Json adapters_json(const std::optional<Adapters>& adapters) {
  if (!adapters) return {};
  return {{"rank", adapters->rank},           {"targets", adapters->targets},
          {"dropout", adapters->dropout},     {"dtype", type_or_null(adapters->data_type)},
          {"dora", adapters->has_magnitudes}, {"train", adapters->trained_modules}};
}

void add_model(Json& document, const LoadedModel& model) {
  document["model"] = model.name;
  document["family"] = text_or_null(model.family);
  document["recipe"] = text_or_null(model.recipe_name);
  const bool knows_bytes_only = model.family.empty();  // a plain graph
  document["parameters"] = knows_bytes_only ? Json() : Json(parameter_count(model.graph));
  document["active_parameters"] =
      knows_bytes_only ? Json() : Json(active_parameter_count(model.graph));
  document["trainable_parameters"] =
      knows_bytes_only ? Json() : Json(trainable_parameter_count(model.graph));
  document["parameter_bytes"] = parameter_bytes(model.graph);
  for (const char* const dim : {"batch", "tokens", "vocab"}) {
    document[dim] = count_or_null(dim_value(model, dim));
  }
  Json dims = Json::object();
  for (const ResolvedDim& dim : model.dims) {
    dims[dim.name] =
        dim.type == DimType::kFlag ? Json(dim.value.integer == 1) : value_json(dim.value);
  }
  document["dims"] = std::move(dims);
  Json origins = Json::object();
  for (const auto* const resolved : {&model.dims, &model.per_layer}) {
    for (const ResolvedDim& dim : *resolved) {
      origins[dim.name] = {{"from", std::string(dim_origin_name(dim.origin))},
                           {"what", dim.origin_text}};
    }
  }
  document["dim_origins"] = std::move(origins);
  document["precision"] =
      knows_bytes_only ? Json() : Json(std::string(precision_name(model.recipe.precision)));
  document["optimizer"] = model.recipe.optimizer;
  document["optimizer_states"] = type_or_null(model.recipe.optimizer_state_type);
  const TrainingStep& step = model.recipe.step;
  document["optimizer_loop"] = std::string(optimizer_loop_name(step.optimizer_loop));
  document["optimizer_in_backward"] = step.optimizer_in_backward;
  document["micro_batches"] = step.micro_batches;
  document["keep_gradients"] = step.keeps_gradients;
  document["main_gradients"] = type_or_null(step.main_gradient_type);
  document["freeze"] = model.recipe.freeze;
  document["train_only"] = model.recipe.train_only;
  document["quantization"] = quantization_json(model.recipe.quantization);
  document["adapters"] = adapters_json(model.recipe.adapters);
  document["attention"] = text_or_null(model.attention);
  Json implementations = Json::object();
  for (const auto& [option, choice] : model.implementations) implementations[option] = choice;
  document["implementations"] = std::move(implementations);
  const bool has_experts = dim_value(model, "experts") > 0;
  document["expert_imbalance"] = has_experts ? Json(model.recipe.expert_imbalance) : Json();
  document["expert_capacity"] =
      model.recipe.expert_capacity > 0.0 ? Json(model.recipe.expert_capacity) : Json();
}

std::string json_text(const Json& document) {
  return document.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace cairn
