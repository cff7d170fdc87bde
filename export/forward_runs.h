#pragma once

#include "export/export_plan.h"

namespace cairn {

// Sets layer_runs and module_runs by the schedule of what is exported: how often a trainer calls
// the forward of a module, for a user to count.
void count_forward_runs(ExportAnswer& answer);

}  // namespace cairn
