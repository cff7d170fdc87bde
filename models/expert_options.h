#pragma once

#include <string>
#include <vector>

#include "graph/recipe.h"
#include "models/dims.h"
#include "models/model_request.h"

// The options about experts, for families that have the dims `experts` and `experts_per_token`.

namespace cairn {

// Puts what the user asked for into the recipe and returns what to tell of it. Throws InputError
// for a family without experts, and for a number that no routing can reach.
std::vector<std::string> set_expert_load(const ModelRequest& request,
                                         const std::string& family_name,
                                         const std::vector<ResolvedDim>& dims, Recipe& recipe);

}  // namespace cairn
