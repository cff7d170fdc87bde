#pragma once

#include <optional>
#include <string>

#include "graph/device_spec.h"
#include "graph/plan.h"
#include "models/load_model.h"

// The first lines of every report about a model: what was computed, with the exact values.

namespace cairn {

// "model ...", "training ..." and, for a graph with checkpoints, "recompute ...".
std::string model_header(const LoadedModel& model);
std::string extent_header(Extent extent);

// "GPU ...": the total, each reserve, and what is left for tensors.
std::string gpu_header(const DeviceSpec& gpu);

}  // namespace cairn
