#include "models/expert_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "graph/checked.h"
#include "graph/error.h"
#include "graph/grouped_text.h"
#include "graph/ops/expert_rows.h"

namespace cairn {
namespace {

// Zero where the family has no such dim.
std::int64_t dim_named(const std::vector<ResolvedDim>& dims, std::string_view name) {
  const auto found =
      std::find_if(dims.begin(), dims.end(), [&](const auto& dim) { return dim.name == name; });
  return found == dims.end() ? 0 : found->value.integer;
}

std::string rows_note(const ExpertLoad& load) {
  ExpertLoad balanced = load;
  balanced.imbalance = 1.0;
  balanced.capacity = 0.0;
  const std::int64_t rows = expert_rows(load);
  const std::int64_t balanced_rows = expert_rows(balanced);
  if (load.capacity > 0.0) {
    std::string note = fmt::format(
        "--expert-capacity {}: each expert computes {} rows, padded, {} in all{}; what goes beyond "
        "is dropped",
        load.capacity, grouped_text(rows / load.experts), grouped_text(rows),
        rows == balanced_rows ? ", as many as without it"
                              : fmt::format(" instead of {}", grouped_text(balanced_rows)));
    if (load.imbalance > 1.0) note += "; --expert-imbalance adds nothing to that";
    return note;
  }
  return fmt::format(
      "--expert-imbalance {}: the weights counted are still those of all experts; the rows are "
      "those of the worst rank of an expert-parallel group with as many tokens on each, {} instead "
      "of {}",
      load.imbalance, grouped_text(rows), grouped_text(balanced_rows));
}

}  // namespace

std::vector<std::string> set_expert_load(const ModelRequest& request,
                                         const std::string& family_name,
                                         const std::vector<ResolvedDim>& dims, Recipe& recipe) {
  if (!request.expert_imbalance && !request.expert_capacity) return {};
  const char* const first = request.expert_imbalance ? "--expert-imbalance" : "--expert-capacity";
  const std::int64_t experts = dim_named(dims, "experts");
  const std::int64_t experts_per_token = dim_named(dims, "experts_per_token");
  if (experts == 0 || experts_per_token == 0 || experts_per_token > experts) {
    throw InputError(
        fmt::format("{} has no meaning for family '{}': it has no experts", first, family_name));
  }
  const double most = most_expert_imbalance(experts, experts_per_token);
  const auto check = [&](double number, const char* option, bool is_in_range, const char* from) {
    if (is_in_range && number <= most) return;
    throw InputError(
        fmt::format("{}: expected a number {} to {} ({} experts / {} a token), found {}", option,
                    from, most, experts, experts_per_token, number));
  };
  if (request.expert_imbalance) {
    recipe.expert_imbalance = *request.expert_imbalance;
    check(recipe.expert_imbalance, "--expert-imbalance", recipe.expert_imbalance >= 1.0, "from 1");
  }
  if (request.expert_capacity) {
    recipe.expert_capacity = *request.expert_capacity;
    check(recipe.expert_capacity, "--expert-capacity", recipe.expert_capacity > 0.0,
          "above 0 and up");
  }
  if (recipe.expert_imbalance == 1.0 && recipe.expert_capacity == 0.0) return {};
  std::int64_t rows = experts_per_token;
  for (const char* const dim : {"batch", "tokens"}) {
    rows = checked_multiply(rows, dim_named(dims, dim), "{}", "rows of experts");
  }
  return {rows_note({.rows = rows,
                     .experts = experts,
                     .imbalance = recipe.expert_imbalance,
                     .capacity = recipe.expert_capacity})};
}

}  // namespace cairn
