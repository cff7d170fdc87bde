#include "models/linear_layers.h"

#include <fmt/format.h>

#include <algorithm>

#include "graph/error.h"
#include "models/trainable.h"

namespace cairn {
namespace {

constexpr std::string_view kAllLinear = "all-linear";

bool is_any_of(const std::vector<std::string>& patterns, std::string_view module) {
  return std::any_of(patterns.begin(), patterns.end(),
                     [&](const std::string& pattern) { return names_module(pattern, module); });
}

bool is_adapted(const Adapters& adapters, std::string_view module, bool is_head) {
  const std::vector<std::string>& targets = adapters.targets;
  const bool all_linear = std::find(targets.begin(), targets.end(), kAllLinear) != targets.end();
  return (all_linear && !is_head) || is_any_of(targets, module);
}

bool is_quantized(const Quantization& quantization, std::string_view module, bool is_head) {
  return !is_head && !is_any_of(quantization.skipped_modules, module);
}

const Layer* layer_named(const std::map<std::string, Layer>& layers, const std::string& name) {
  const auto found = layers.find(name);
  if (found == layers.end()) throw InputError(fmt::format("there is no layer '{}'", name));
  return &found->second;
}

std::string adapter_layer_name(const Adapters& adapters) {
  return adapters.has_magnitudes ? "dora_peft" : "lora_peft";
}

std::string quantized_layer_name(const Quantization& quantization) {
  return quantization.format == QuantizedFormat::kInt8 ? "linear_8bit_bnb" : "linear_4bit_bnb";
}

}  // namespace

bool names_module(std::string_view pattern, std::string_view module) {
  if (names_any_part(pattern, module)) return true;
  for (std::size_t dot = module.find('.'); dot != std::string_view::npos;
       dot = module.find('.', dot + 1)) {
    if (fits_pattern(pattern, module.substr(dot + 1))) return true;
  }
  return false;
}

std::vector<std::string> linear_layer_names() {
  return {"lora_peft", "dora_peft", "linear_4bit_bnb", "linear_8bit_bnb"};
}

LinearLayers::LinearLayers(const Recipe& recipe, const std::map<std::string, Layer>& layers)
    : recipe_(recipe) {
  if (recipe.adapters) adapted_ = layer_named(layers, adapter_layer_name(*recipe.adapters));
  if (recipe.quantization) {
    quantized_ = layer_named(layers, quantized_layer_name(*recipe.quantization));
  }
}

const Layer* LinearLayers::layer_for(std::string_view module, bool is_head) const {
  if (adapted_ != nullptr && is_adapted(*recipe_.adapters, module, is_head)) return adapted_;
  return base_layer_for(module, is_head);
}

const Layer* LinearLayers::base_layer_for(std::string_view module, bool is_head) const {
  if (quantized_ == nullptr) return nullptr;
  return is_quantized(*recipe_.quantization, module, is_head) ? quantized_ : nullptr;
}

}  // namespace cairn
