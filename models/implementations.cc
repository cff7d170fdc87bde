#include "models/implementations.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "graph/error.h"

namespace cairn {
namespace {

// Kinds and composites that a family's ops name, and those that the composites name.
class NamesInUse {
 public:
  NamesInUse(const Family& family, const std::map<std::string, Layer>& layers) : layers_(layers) {
    for (const FamilyItem& item : family.items) {
      if (item.block_ops.empty()) visit(item.op);
      for (const FamilyOp& op : item.block_ops) visit(op);
    }
  }

  bool contains(const std::string& name) const { return names_.contains(name); }

 private:
  void visit(const FamilyOp& op) {
    const std::string name = op.kind == nullptr ? op.layer_name : std::string(op.kind->name);
    if (!names_.insert(name).second || op.kind != nullptr) return;
    for (const FamilyOp& inner : layers_.at(name).ops) visit(inner);
  }

  const std::map<std::string, Layer>& layers_;
  std::set<std::string> names_ = {};
};

// The implementations among which an option chooses.
std::vector<const Implementation*> with_option(const Family& family, const NamesInUse& in_use,
                                               std::string_view option) {
  std::vector<const Implementation*> found;
  for (const auto& [name, implementation] : family.implementations) {
    if (implementation.option == option && in_use.contains(name)) found.push_back(&implementation);
  }
  return found;
}

// What all of them have.
std::vector<std::string> common_choices(const std::vector<const Implementation*>& implementations) {
  std::vector<std::string> common;
  if (implementations.empty()) return common;
  for (const auto& [choice, layer] : implementations[0]->layer_of_choice) {
    const bool all_have = std::all_of(implementations.begin(), implementations.end(),
                                      [&, name = choice](const Implementation* one) {
                                        return one->layer_of_choice.contains(name);
                                      });
    if (all_have) common.push_back(choice);
  }
  return common;
}

void check_known(const Family& family, const std::vector<std::string>& known,
                 std::string_view option, const std::string& choice) {
  if (known.empty()) {
    throw InputError(fmt::format("family '{}' has no choice of {}", family.name, option));
  }
  if (std::find(known.begin(), known.end(), choice) == known.end()) {
    throw InputError(fmt::format("family '{}' has no {} '{}': expected one of {}{}", family.name,
                                 option, choice, join_names(known), did_you_mean(choice, known)));
  }
}

}  // namespace

std::vector<std::string> known_choices(const Family& family,
                                       const std::map<std::string, Layer>& layers,
                                       std::string_view option) {
  return common_choices(with_option(family, NamesInUse(family, layers), option));
}

void check_choice(const Family& family, const std::map<std::string, Layer>& layers,
                  std::string_view option, const std::string& choice) {
  check_known(family, known_choices(family, layers, option), option, choice);
}

std::map<std::string, std::string> implementation_choices(
    const Family& family, const std::map<std::string, Layer>& layers, const Recipe& recipe) {
  const NamesInUse in_use(family, layers);
  std::map<std::string, std::string> choices;
  for (const std::string_view name : kImplementationOptions) {
    const std::string option(name);
    const std::vector<const Implementation*> implementations = with_option(family, in_use, option);
    const auto asked = recipe.implementations.find(option);
    if (asked == recipe.implementations.end() || asked->second.empty()) {
      if (!implementations.empty()) choices[option] = implementations[0]->default_choice;
      continue;
    }
    check_known(family, common_choices(implementations), option, asked->second);
    choices[option] = asked->second;
  }
  return choices;
}

std::map<std::string, const Layer*> chosen_layers(
    const Family& family, const std::map<std::string, Layer>& layers,
    const std::map<std::string, std::string>& choices) {
  std::map<std::string, const Layer*> chosen;
  for (const auto& [name, implementation] : family.implementations) {
    const auto choice = choices.find(implementation.option);
    const bool is_chosen =
        choice != choices.end() && implementation.layer_of_choice.contains(choice->second);
    const std::string& layer = implementation.layer_of_choice.at(
        is_chosen ? choice->second : implementation.default_choice);
    chosen[name] = layer.empty() ? nullptr : &layers.at(layer);
  }
  return chosen;
}

std::vector<std::string> losses_with_the_head(const Family& family,
                                              const std::map<std::string, Layer>& layers) {
  std::vector<std::string> losses;
  for (const auto& [name, implementation] : family.implementations) {
    if (implementation.option != "loss") continue;
    for (const auto& [choice, layer] : implementation.layer_of_choice) {
      if (!layer.empty() && layers.at(layer).takes_head) losses.push_back(choice);
    }
  }
  return losses;
}

}  // namespace cairn
