#include "models/adapter_targets.h"

#include <fmt/format.h>

#include <algorithm>

#include "graph/error.h"
#include "models/linear_layers.h"
#include "models/source_text.h"
#include "models/trainable.h"

namespace cairn {
namespace {

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

bool has_experts(const Graph& graph) {
  return std::any_of(graph.ops.begin(), graph.ops.end(),
                     [](const Op& op) { return op.kind->name == "expert_linear"; });
}

std::string experts_note(const Graph& graph) {
  return has_experts(graph) ? "; its experts' weights are parameters, not layers: adapters of them "
                              "are not in this version"
                            : "";
}

// What a target that is no linear layer names instead; experts_note() has its experts.
std::string other_op_hint(const std::string& target, const Graph& graph) {
  const Op* other = nullptr;
  for (const Op& op : graph.ops) {
    if (op.module.empty() || !names_module(target, op.module)) continue;
    if (op.kind->name == "expert_linear") return {};
    if (other == nullptr) other = &op;
  }
  if (other == nullptr) return {};
  if (other->kind->name == "linear") {
    return fmt::format(": the weight of {} is a parameter of a function", other->module);
  }
  return fmt::format(": the kind of {} is {}", other->module, other->kind->name);
}

void check_has_targets(const PlacedAdapters& placed, const Graph& graph) {
  if (!placed.adapters.targets.empty()) return;
  const Family& family = placed.family;
  const std::vector<std::string>& refused = family.refused_targets;
  const bool takes_all = std::find(refused.begin(), refused.end(), kAllLinear) == refused.end();
  throw InputError(
      fmt::format("--lora-targets: {} has no default for family '{}': expected {}some of {}{}",
                  family.library == "hf" ? "PEFT" : "its library", family.name,
                  takes_all ? "all-linear, or " : "",
                  join_names(short_names(placed.linear_modules)), experts_note(graph)));
}

void check_target(const std::string& target, const PlacedAdapters& placed, const Graph& graph) {
  if (placed.named_patterns.contains(target)) return;
  const std::vector<std::string> known = short_names(placed.linear_modules);
  std::vector<std::string> names = known;
  names.emplace_back(kAllLinear);
  std::string hint = other_op_hint(target, graph);
  if (target.find(',') != std::string::npos) {
    hint += ": each has a --lora-targets of its own, or a place in a recipe's list";
  }
  throw InputError(fmt::format("--lora-targets: no linear layer is called {}{}; there are {}{}{}",
                               in_quotes(target), hint, join_names(known), experts_note(graph),
                               hint.empty() ? did_you_mean(target, names) : ""));
}

// Those of the model, not of its adapters.
std::set<std::string> modules_with_weights(const PlacedAdapters& placed, const Graph& graph) {
  std::set<std::string> modules = placed.linear_modules;
  for (const Op& op : graph.ops) {
    const bool has_weights = std::any_of(op.inputs.begin(), op.inputs.end(), [&](TensorId input) {
      return graph.tensor(input).role == TensorRole::kParameter;
    });
    const bool is_in_linear =
        std::any_of(placed.linear_modules.begin(), placed.linear_modules.end(),
                    [&](const std::string& module) { return op.module.starts_with(module + "."); });
    if (has_weights && !is_in_linear && !op.module.empty()) modules.insert(op.module);
  }
  return modules;
}

void check_trained_module(const std::string& pattern, const PlacedAdapters& placed,
                          const Graph& graph) {
  if (placed.named_patterns.contains(pattern)) return;
  const std::vector<std::string> names = short_names(modules_with_weights(placed, graph));
  throw InputError(fmt::format("--lora-train: no module with weights is called {}; there are {}{}",
                               in_quotes(pattern), join_names(names),
                               did_you_mean(pattern, names)));
}

// peft 0.21.2, tuners/tuners_utils.py (inject_adapter): NoMatchingPeftModuleError.
void check_is_beside_some(const PlacedAdapters& placed) {
  const Adapters& adapters = placed.adapters;
  const auto is_trained_whole = [&](const std::string& module) {
    return std::any_of(
        adapters.trained_modules.begin(), adapters.trained_modules.end(),
        [&](const std::string& pattern) { return names_any_part("*" + pattern, module); });
  };
  const auto is_target = [&](const std::string& module) {
    return std::any_of(adapters.targets.begin(), adapters.targets.end(),
                       [&](const std::string& target) {
                         return target == kAllLinear || names_module(target, module);
                       });
  };
  for (const std::string& module : placed.linear_modules) {
    if (is_target(module) && !is_trained_whole(module)) return;
  }
  throw InputError(
      "--lora-targets and --lora-train: all layers that the first names are trained whole by the "
      "second, and none is left to have an adapter");
}

}  // namespace

void check_adapter_targets(const PlacedAdapters& placed, const Graph& graph) {
  check_has_targets(placed, graph);
  const std::vector<std::string>& trained = placed.adapters.trained_modules;
  if (!trained.empty()) check_is_beside_some(placed);
  for (const std::string& target : placed.adapters.targets) check_target(target, placed, graph);
  for (const std::string& pattern : trained) check_trained_module(pattern, placed, graph);
}

std::vector<std::string> adapter_notes(const Graph& graph, const Adapters& adapters) {
  const std::vector<std::string>& targets = adapters.targets;
  const bool is_all = std::find(targets.begin(), targets.end(), kAllLinear) != targets.end();
  if (!is_all || !has_experts(graph)) return {};
  return {
      "--lora-targets all-linear: the experts' weights are parameters, not linear layers: PEFT "
      "leaves them without adapters"};
}

}  // namespace cairn
