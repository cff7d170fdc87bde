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

std::string quantized_layer_name(const Quantization& quantization) {
  return quantization.format == QuantizedFormat::kInt8 ? "linear_8bit_bnb" : "linear_4bit_bnb";
}

// PEFT's are beside the layers of Transformers and of what has no library of its own.
std::string adapter_layer_name(const Adapters& adapters, const std::string& library) {
  const std::string way = library.empty() || library == "hf" ? "peft" : library;
  if (!adapters.has_magnitudes) return "lora_" + way;
  return (adapters.dropout > 0.0 ? "dora_dropout_" : "dora_") + way;
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
    : recipe_(recipe), family_name_(family.name), refused_targets_(family.refused_targets) {
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
  if (std::find(refused_targets_.begin(), refused_targets_.end(), last) == refused_targets_.end()) {
    return;
  }
  throw InputError(fmt::format(
      "--lora-targets: PEFT takes {} of family '{}' for its experts' parameters too, adapters of "
      "which are not in this version; expected other linear layers by their names",
      in_quotes(last), family_name_));
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
        family_name_, join_names(known), experts_note(graph)));
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
