#pragma once

#include <string>

#include "cli/model_options.h"
#include "graph/device_spec.h"
#include "graph/plan.h"
#include "models/load_model.h"

// The first lines of every report about a model: what was computed, with the exact values.

namespace cairn {

// "model ...", "training ..." and, for a graph with checkpoints, "recompute ...".
std::string model_header(const LoadedModel& model);
std::string extent_header(Extent extent);

// With --explain-defaults a table, and an empty line: each dim, its value, and what gives it: a key
// of the file, an option, or a default. Else nothing.
std::string explained_dims(const ModelOptions& options, const LoadedModel& model);

// "GPU ...": the total, each reserve, and what is left for tensors.
std::string gpu_header(const DeviceSpec& gpu);

// That the GPU has no tensor cores for the model's precision, where that is so; else "".
std::string precision_note(const LoadedModel& model, const DeviceSpec& gpu);

}  // namespace cairn
