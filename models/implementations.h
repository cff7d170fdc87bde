#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "graph/recipe.h"
#include "models/family.h"

// Which of a family's implementations each op runs as.

namespace cairn {

// By option of kImplementationOptions: what is taken. Options for which the family's ops have no
// choice are left out. Throws InputError when the recipe asks for what the family does not have.
std::map<std::string, std::string> implementation_choices(
    const Family& family, const std::map<std::string, Layer>& layers, const Recipe& recipe);

// What the option takes for all of them, given the family's ops; empty where there is no choice.
std::vector<std::string> known_choices(const Family& family,
                                       const std::map<std::string, Layer>& layers,
                                       std::string_view option);

// Throws InputError where the family does not have it.
void check_choice(const Family& family, const std::map<std::string, Layer>& layers,
                  std::string_view option, const std::string& choice);

// By op kind or composite: the layer that stands for it, or nullptr for the kind's own kernel.
// Others run as they stand. `choices` come from implementation_choices().
std::map<std::string, const Layer*> chosen_layers(
    const Family& family, const std::map<std::string, Layer>& layers,
    const std::map<std::string, std::string>& choices);

// Choices of loss that never make all logits at once.
std::vector<std::string> losses_with_the_head(const Family& family,
                                              const std::map<std::string, Layer>& layers);

}  // namespace cairn
