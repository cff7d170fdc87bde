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

std::string quantized_layer_name(const Quantization& quantization) {
  return quantization.format == QuantizedFormat::kInt8 ? "linear_8bit_bnb" : "linear_4bit_bnb";
}

// PEFT's are beside the layers of Transformers and of what has no library of its own.
std::string adapter_layer_name(const Adapters& adapters, const std::string& library) {
  const std::string way = library.empty() || library == "hf" ? "peft" : library;
  if (!adapters.has_magnitudes) return "lora_" + way;
  return (adapters.dropout > 0.0 ? "dora_dropout_" : "dora_") + way;
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

std::vector<std::string> linear_layer_names() {
  return {"lora_peft",   "dora_peft",       "dora_dropout_peft", "lora_torchtune",
          "lora_litgpt", "linear_4bit_bnb", "linear_8bit_bnb",   "lora_peft_quantized"};
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
    adapted_ = layer_named(layers, adapter_layer_name(adapters, family.library));
    if (adapted_ == nullptr) {
      throw InputError(fmt::format("{}: adapters as '{}' runs them are not in this version",
                                   adapters.has_magnitudes ? "--dora" : "--lora", family.library));
    }
    for (const std::string& target : adapters.targets) refuse_other_adapters(target);
  }
  if (recipe.quantization) {
    quantized_ = layer_named(layers, quantized_layer_name(*recipe.quantization));
    adapted_quantized_ = layer_named(layers, "lora_peft_quantized");
    CAIRN_CHECK(quantized_ != nullptr && adapted_quantized_ != nullptr,
                "the layers of quantised weights are built in");
  }
}

bool LinearLayers::is_adapted(const LinearLayer& linear) {
  if (is_trained(linear.module)) return false;
  bool is_target = false;
  for (const std::string& target : recipe_.adapters->targets) {
    const bool is_all = target == kAllLinear;
    if (is_all ? linear.is_head : !names_module(target, linear.module)) continue;
    refuse_other_adapters(linear.module);
    named_patterns_.insert(target);
    is_target = true;
  }
  return is_target;
}

const Layer* LinearLayers::layer_for(const LinearLayer& linear) {
  if (adapted_ != nullptr) {
    modules_.insert(linear.module);
    if (is_adapted(linear)) {
      return base_layer_for(linear) == nullptr ? adapted_ : adapted_quantized_;
    }
  }
  return base_layer_for(linear);
}

const Layer* LinearLayers::base_layer_for(const LinearLayer& linear) const {
  if (quantized_ == nullptr || linear.is_head) return nullptr;
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
