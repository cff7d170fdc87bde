#pragma once

#include <string>
#include <vector>

#include "export/export_plan.h"

namespace cairn {

// What may go wrong with this very plan at this target: only what is true of it.
std::vector<std::string> export_traps(const ExportAnswer& answer);

// Whether the exported plan recomputes ops that draw random numbers: dropout.
bool recomputes_random(const ExportAnswer& answer);

}  // namespace cairn
