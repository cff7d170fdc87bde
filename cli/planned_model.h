#pragma once

#include "cli/model_options.h"
#include "models/document.h"
#include "models/load_model.h"

namespace cairn {

struct PlannedModel {
  ModelRequest request = {};
  LoadedModel model = {};
};

// Makes the graph that a plan file's part 'model' asks for, with what was typed in place of what it
// says. Whether that is still the graph that the plan is for, read_plan_of tells. Throws
// InputError.
PlannedModel load_planned_model(const Document& plan_file, const ModelOptions& options);

}  // namespace cairn
