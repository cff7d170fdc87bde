#pragma once

#include <optional>
#include <string>

#include "cli/model_options.h"
#include "graph/plan.h"
#include "models/document.h"
#include "models/load_model.h"

// The plan that a command line names by a strategy or a file, of the model that it names.

namespace cairn {

struct PlanChoice {
  const ModelOptions& model;
  const std::optional<std::string>& checkpointing;  // as typed
  const std::optional<std::string>& extent;
  const std::optional<std::string>& plan;  // a file
};

struct ChosenPlan {
  ModelRequest request = {};
  LoadedModel model = {};
  Plan plan = {};
};

// The plan file that is named, instead of the model or beside it. Throws InputError for two, and
// for one beside a strategy.
std::optional<Document> named_plan_file(const PlanChoice& choice);

// Throws InputError.
ChosenPlan choose_plan(const PlanChoice& choice);

}  // namespace cairn
