#include "models/linear_layers.h"

#include <fmt/format.h>

#include <algorithm>

#include "graph/error.h"
#include "models/adapter_targets.h"
#include "models/source_text.h"
#include "models/trainable.h"

namespace cairn {
namespace {

const Layer* layer_named(const std::map<std::string, Layer>& layers, const std::string& name) {
  const auto found = layers.find(name);
  return found == layers.end() ? nullptr : &found->second;
}

std::string quantized_layer_name(const Family& family, QuantizedFormat format) {
  if (format != QuantizedFormat::kInt8) {
    return family.linear_4bit.empty() ? "linear_4bit_bnb" : family.linear_4bit;
  }
  if (family.linear_4bit.empty()) return "linear_8bit_bnb";
  throw InputError(
      fmt::format("--quantize int8: 8-bit layers as '{}' runs them are not in this version; "
                  "expected nf4 or fp4",
                  family.library));
}

// PEFT's adapters are beside the layers of Transformers and of what has no library of its own.
std::string adapter_library(const Family& family) {
  return family.library.empty() || family.library == "hf" ? "peft" : family.library;
}

std::string adapter_layer_name(const Adapters& adapters, const Family& family) {
  const std::string library = adapter_library(family);
  if (!adapters.has_magnitudes) return "lora_" + library;
  return (adapters.dropout > 0.0 ? "dora_dropout_" : "dora_") + library;
}

void check_adapters(const Adapters& adapters, const Recipe& recipe) {
  if (adapters.rank < 1) {
    throw InputError(fmt::format("--lora: expected a rank of 1 or more, found {}", adapters.rank));
  }
  if (adapters.dropout < 0.0 || adapters.dropout >= 1.0) {
    throw InputError(fmt::format("--lora-dropout: expected a probability in [0, 1), found {}",
                                 adapters.dropout));
  }
  if (adapters.data_type && !is_floating(*adapters.data_type)) {
    throw InputError(fmt::format("--lora-dtype: expected a floating-point type, found {}",
                                 data_type_name(*adapters.data_type)));
  }
  for (const auto& [option, patterns] :
       {std::pair{"--freeze", &recipe.freeze}, std::pair{"--train-only", &recipe.train_only}}) {
    if (patterns->empty()) continue;
    throw InputError(
        fmt::format("{} has no meaning beside adapters, which freeze all else: --lora-targets says "
                    "which layers have one, --lora-train what is trained whole",
                    option));
  }
}

}  // namespace

std::vector<std::string> linear_layer_names(const Family& family) {
  const std::string library = adapter_library(family);
  std::vector<std::string> names = {
      "lora_" + library, "lora_fused_" + library,   fmt::format("lora_{}_quantized", library),
      "dora_" + library, "dora_dropout_" + library, "linear_4bit_bnb",
      "linear_8bit_bnb"};
  if (!family.linear_4bit.empty()) names.push_back(family.linear_4bit);
  return names;
}

bool names_module(std::string_view pattern, std::string_view module) {
  if (names_any_part(pattern, module)) return true;
  for (std::size_t dot = module.find('.'); dot != std::string_view::npos;
       dot = module.find('.', dot + 1)) {
    if (fits_pattern(pattern, module.substr(dot + 1))) return true;
  }
  return false;
}

LinearLayers::LinearLayers(const Recipe& recipe, const Family& family,
                           const std::map<std::string, Layer>& layers)
    : recipe_(recipe), family_(family) {
  if (recipe.quantization && recipe.adapters && recipe.adapters->has_magnitudes) {
    throw InputError(
        "--dora and --quantize: magnitudes beside quantised weights are not in this "
        "version; expected one of them, found both");
  }
  if (recipe.adapters) {
    const Adapters& adapters = *recipe.adapters;
    check_adapters(adapters, recipe);
    adapted_ = layer_named(layers, adapter_layer_name(adapters, family));
    if (adapted_ == nullptr) {
      throw InputError(fmt::format("{}: adapters as '{}' runs them are not in this version",
                                   adapters.has_magnitudes ? "--dora" : "--lora", family.library));
    }
    adapted_parts_ = layer_named(layers, "lora_fused_" + adapter_library(family));
    for (const std::string& target : adapters.targets) refuse_other_adapters(target);
  }
  if (recipe.quantization) set_quantized_layers(layers);
}

void LinearLayers::set_quantized_layers(const std::map<std::string, Layer>& layers) {
  const std::string name = quantized_layer_name(family_, recipe_.quantization->format);
  quantized_ = layer_named(layers, name);
  adapted_quantized_ =
      layer_named(layers, fmt::format("lora_{}_quantized", adapter_library(family_)));
  if (quantized_ != nullptr && quantized_->of_kind == "linear") return;
  throw InputError(fmt::format("family '{}': key 'linear_4bit': there is no layer {} of a linear",
                               family_.name, in_quotes(name)));
}

// Whether the target names the layer, or that part of it.
bool LinearLayers::names(const std::string& target, const LinearLayer& linear,
                         std::string_view part) {
  const bool is_named =
      target == kAllLinear
          ? !linear.is_head
          : names_module(target, linear.module) ||
                (!part.empty() && names_module(target, fmt::format("{}.{}", linear.module, part)));
  if (!is_named) return false;
  refuse_other_adapters(linear.module);
  named_patterns_.insert(target);
  return true;
}

bool LinearLayers::is_adapted(const LinearLayer& linear) {
  if (!linear.parts.empty()) return !adapted_parts(linear).empty();
  if (is_trained(linear.module)) return false;
  bool is_target = false;
  for (const std::string& target : recipe_.adapters->targets) {
    if (names(target, linear, "")) is_target = true;
  }
  return is_target;
}

std::vector<std::string> LinearLayers::adapted_parts(const LinearLayer& linear) {
  std::vector<std::string> adapted;
  if (is_trained(linear.module)) return adapted;
  for (const std::string& part : linear.parts) {
    bool is_target = false;
    for (const std::string& target : recipe_.adapters->targets) {
      if (names(target, linear, part)) is_target = true;
    }
    if (is_target) adapted.push_back(part);
  }
  return adapted;
}

const Layer* LinearLayers::adapter_layer(const LinearLayer& linear) const {
  if (!linear.parts.empty()) {
    if (adapted_parts_ != nullptr && !recipe_.adapters->has_magnitudes) return adapted_parts_;
    throw InputError(fmt::format(
        "--lora-targets: {} is {} in one layer, and such adapters as '{}' runs them are not in "
        "this version; expected other linear layers",
        linear.module, join_names(linear.parts), family_.library));
  }
  const bool is_quantized = base_layer_for(linear) != nullptr;
  return is_quantized && adapted_quantized_ != nullptr ? adapted_quantized_ : adapted_;
}

const Layer* LinearLayers::layer_for(const LinearLayer& linear) {
  if (adapted_ != nullptr) {
    modules_.insert(linear.module);
    for (const std::string& part : linear.parts) modules_.insert(linear.module + "." + part);
    if (is_adapted(linear)) return adapter_layer(linear);
  }
  return base_layer_for(linear);
}

const Layer* LinearLayers::base_layer_for(const LinearLayer& linear) const {
  if (quantized_ == nullptr || (linear.is_head && !family_.quantizes_head)) return nullptr;
  const std::vector<std::string>& skipped = recipe_.quantization->skipped_modules;
  const bool is_skipped =
      std::any_of(skipped.begin(), skipped.end(),
                  [&](const std::string& pattern) { return names_module(pattern, linear.module); });
  return is_skipped ? nullptr : quantized_;
}

// By a target's or a module's last part.
void LinearLayers::refuse_other_adapters(std::string_view name) const {
  const std::string last(name.substr(name.rfind('.') + 1));
  const std::vector<std::string>& refused = family_.refused_targets;
  if (std::find(refused.begin(), refused.end(), last) == refused.end()) return;
  throw InputError(fmt::format(
      "--lora-targets: PEFT takes {} of family '{}' for its experts' parameters too, adapters of "
      "which are not in this version; expected other linear layers by their names",
      in_quotes(last), family_.name));
}

// As PEFT has it: of a module whose path ends so, with all in it (utils/other.py: _set_trainable).
bool LinearLayers::is_trained(std::string_view module) {
  if (!recipe_.adapters || module.empty()) return false;
  bool is_trained = false;
  for (const std::string& pattern : recipe_.adapters->trained_modules) {
    if (!names_any_part("*" + pattern, module)) continue;
    named_patterns_.insert(pattern);
    is_trained = true;
  }
  return is_trained;
}

void LinearLayers::check_targets(const Graph& graph) const {
  if (!recipe_.adapters) return;
  check_adapter_targets({.adapters = *recipe_.adapters,
                         .family = family_,
                         .linear_modules = modules_,
                         .named_patterns = named_patterns_},
                        graph);
}

}  // namespace cairn
