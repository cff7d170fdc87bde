#include "models/linear_layers.h"

#include <fmt/format.h>

#include <algorithm>

#include "graph/error.h"
#include "models/source_text.h"
#include "models/trainable.h"

namespace cairn {
namespace {

constexpr std::string_view kAllLinear = "all-linear";

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

// The path from its n-th last part on: of "a.b.c" "c", then "b.c". A number is no name by itself.
std::string short_name(std::string_view module) {
  std::size_t begin = module.size();
  while (true) {
    const std::size_t dot = begin == 0 ? std::string_view::npos : module.rfind('.', begin - 1);
    const std::size_t part = dot == std::string_view::npos ? 0 : dot + 1;
    const bool is_number =
        module.substr(part, begin - part).find_first_not_of("0123456789") == std::string_view::npos;
    if (!is_number || part == 0) return std::string(module.substr(part));
    begin = dot;
  }
}

std::vector<std::string> short_names(const std::set<std::string>& modules) {
  std::set<std::string> names;
  for (const std::string& module : modules) names.insert(short_name(module));
  return {names.begin(), names.end()};
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

namespace {

// What a target that is no linear layer names instead.
std::string other_op_hint(const std::string& target, const Graph& graph) {
  for (const Op& op : graph.ops) {
    if (op.module.empty() || !names_module(target, op.module)) continue;
    if (op.kind->name == "linear") {
      return fmt::format(": the weight of {} is a parameter of a function", op.module);
    }
    return fmt::format(": the kind of {} is {}", op.module, op.kind->name);
  }
  return {};
}

std::string experts_note(const Graph& graph) {
  const bool has_experts = std::any_of(graph.ops.begin(), graph.ops.end(), [](const Op& op) {
    return op.kind->name == "expert_linear";
  });
  return has_experts
             ? "; its experts' weights are parameters, not layers: adapters of them are not "
               "in this version"
             : "";
}

}  // namespace

void LinearLayers::check_targets(const Graph& graph) const {
  if (!recipe_.adapters) return;
  const std::vector<std::string> known = short_names(modules_);
  if (recipe_.adapters->targets.empty()) {
    throw InputError(fmt::format(
        "--lora-targets: PEFT has no default for family '{}': expected all-linear, or some of {}{}",
        family_.name, join_names(known), experts_note(graph)));
  }
  for (const std::string& target : recipe_.adapters->targets) {
    if (named_patterns_.contains(target)) continue;
    const std::string other = other_op_hint(target, graph);
    std::vector<std::string> names = known;
    names.emplace_back(kAllLinear);
    throw InputError(fmt::format("--lora-targets: no linear layer is called {}{}; there are {}{}{}",
                                 in_quotes(target), other, join_names(known), experts_note(graph),
                                 other.empty() ? did_you_mean(target, names) : ""));
  }
  for (const std::string& pattern : recipe_.adapters->trained_modules) {
    if (named_patterns_.contains(pattern)) continue;
    std::set<std::string> modules;
    for (const Op& op : graph.ops) {
      if (!op.module.empty()) modules.insert(op.module);
    }
    throw InputError(fmt::format("--lora-train: no module with weights is called {}{}",
                                 in_quotes(pattern), did_you_mean(pattern, short_names(modules))));
  }
}

}  // namespace cairn
