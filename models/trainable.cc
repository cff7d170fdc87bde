#include "models/trainable.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <vector>

#include "graph/error.h"
#include "models/source_text.h"

namespace cairn {
namespace {

struct NamedParameter {
  TensorId id = kNoTensor;
  std::vector<std::string> names = {};  // by the trainer's modules, and by ops
};

bool is_parameter(const Tensor& tensor) {
  return tensor.role == TensorRole::kParameter && !tensor.is_buffer;
}

std::vector<NamedParameter> named_parameters(const Graph& graph) {
  std::vector<NamedParameter> parameters;
  std::vector<std::size_t> place(graph.tensors.size(), 0);
  for (std::size_t i = 0; i < graph.tensors.size(); ++i) {
    if (!is_parameter(graph.tensors[i])) continue;
    place[i] = parameters.size();
    parameters.push_back({.id = static_cast<TensorId>(i)});
  }
  for (const Op& op : graph.ops) {
    for (const TensorId input : op.inputs) {
      const Tensor& tensor = graph.tensor(input);
      if (!is_parameter(tensor)) continue;
      const std::string suffix = tensor.name.substr(tensor.name.rfind('.'));
      std::vector<std::string>& names = parameters[place[index(input)]].names;
      if (!op.module.empty()) names.push_back(op.module + suffix);
      names.push_back(op.name + suffix);
    }
  }
  return parameters;
}

bool is_named(const std::string& pattern, const NamedParameter& parameter) {
  return std::any_of(parameter.names.begin(), parameter.names.end(),
                     [&](const std::string& name) { return names_any_part(pattern, name); });
}

bool is_named(const std::vector<std::string>& patterns, const NamedParameter& parameter) {
  return std::any_of(patterns.begin(), patterns.end(),
                     [&](const std::string& pattern) { return is_named(pattern, parameter); });
}

// What a pattern that names nothing may have meant: whole paths, or their last part where it begins
// with "*.".
std::string nearest_hint(const std::string& pattern,
                         const std::vector<NamedParameter>& parameters) {
  std::string_view asked = pattern;
  const bool is_tail = asked.starts_with("*.");
  if (asked.ends_with(".*")) asked.remove_suffix(2);
  std::set<std::string> known;
  for (const NamedParameter& parameter : parameters) {
    for (std::string_view name : parameter.names) {
      while (!name.empty()) {
        const std::size_t dot = name.rfind('.');
        known.insert(is_tail ? fmt::format("*.{}", name.substr(dot + 1)) : std::string(name));
        name = name.substr(0, dot == std::string_view::npos ? 0 : dot);
      }
    }
  }
  return did_you_mean(asked, {known.begin(), known.end()});
}

void check_patterns(std::string_view option, const std::vector<std::string>& patterns,
                    const std::vector<NamedParameter>& parameters) {
  for (const std::string& pattern : patterns) {
    const bool names_some =
        std::any_of(parameters.begin(), parameters.end(),
                    [&](const NamedParameter& parameter) { return is_named(pattern, parameter); });
    if (names_some) continue;
    throw InputError(fmt::format("{}: no module or parameter is called {}{}", option,
                                 in_quotes(pattern), nearest_hint(pattern, parameters)));
  }
}

std::string listed(std::string_view option, const std::vector<std::string>& patterns) {
  std::string text;
  for (const std::string& pattern : patterns) {
    text += fmt::format("{}{} {}", text.empty() ? "" : " ", option, in_quotes(pattern));
  }
  return text;
}

// `all_fixed`: what --train-only names is quantised, and as such never trained.
[[noreturn]] void fail_all_frozen(const Recipe& recipe, std::size_t parameter_count,
                                  bool all_fixed) {
  const std::string frozen = listed("--freeze", recipe.freeze);
  if (recipe.train_only.empty()) {
    throw InputError(fmt::format("{}: nothing is left to train: all {} weights are frozen", frozen,
                                 parameter_count));
  }
  throw InputError(fmt::format("{}: nothing is left to train: {} freezes all of it",
                               listed("--train-only", recipe.train_only),
                               all_fixed ? "--quantize" : frozen));
}

}  // namespace

bool fits_pattern(std::string_view pattern, std::string_view text) {
  std::size_t p = 0;
  std::size_t t = 0;
  std::size_t star = std::string_view::npos;  // the last one passed
  std::size_t behind_star = 0;                // where its match ends so far
  while (t < text.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      behind_star = t;
    } else if (p < pattern.size() && (pattern[p] == '?' || pattern[p] == text[t])) {
      ++p;
      ++t;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      t = ++behind_star;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

bool names_any_part(std::string_view pattern, std::string_view name) {
  while (!fits_pattern(pattern, name)) {
    const std::size_t dot = name.rfind('.');
    if (dot == std::string_view::npos) return false;
    name = name.substr(0, dot);
  }
  return true;
}

std::unordered_set<std::string> frozen_parameters(const Graph& graph, const Recipe& recipe) {
  const std::vector<NamedParameter> parameters = named_parameters(graph);
  check_patterns("--train-only", recipe.train_only, parameters);
  check_patterns("--freeze", recipe.freeze, parameters);
  std::unordered_set<std::string> frozen;
  bool all_fixed = true;
  for (const NamedParameter& parameter : parameters) {
    const bool is_left_out = !recipe.train_only.empty() && !is_named(recipe.train_only, parameter);
    const bool is_fixed = !graph.tensor(parameter.id).requires_grad;
    if (is_left_out || is_fixed || is_named(recipe.freeze, parameter)) {
      frozen.insert(graph.tensor(parameter.id).name);
    }
    if (!is_left_out && !is_fixed) all_fixed = false;
  }
  if (!parameters.empty() && frozen.size() == parameters.size()) {
    fail_all_frozen(recipe, parameters.size(), all_fixed);
  }
  return frozen;
}

}  // namespace cairn
