#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "export/export_plan.h"

// Layers of the exported plan, which recomputes some of them, each alone: as emitted Python.

namespace cairn {

// Of those that are recomputed, the places in the order of the model: "[0, 3, 4]", "range(6)".
std::vector<std::int64_t> recomputed_layers(const LayerPlan& plan);

// Lines of a list's inside: the paths of the layers that are recomputed; and of all layers
// (path, forward runs).
std::string recomputed_path_lines(const ExportAnswer& answer);
std::string layer_run_lines(const ExportAnswer& answer);

}  // namespace cairn
