#pragma once

#include <filesystem>
#include <string>

#include "graph/graph.h"
#include "graph/measured_costs.h"
#include "models/document.h"
#include "models/load_model.h"
#include "models/model_request.h"
#include "models/plan_origin.h"

// Cost files: how long each op of one graph took on one device, and the origin of that graph, as
// plan files have it. docs/formats.md describes the format.

namespace cairn {

// Throws InputError at the place of the fault: an op that the graph has not, or that has no time.
// The file's origin has to be well-formed, no more.
MeasuredCosts read_costs(const Document& document, const Graph& graph);

// The same for the model that the request has loaded. Throws InputError also where the file says
// that its costs are of another graph, and what is different.
MeasuredCosts read_costs_of(const Document& document, const ModelRequest& request,
                            const LoadedModel& model);

// The costs as a file; read_costs gives the same costs again.
std::string cost_file_text(const MeasuredCosts& costs, const PlanOrigin& origin = {});

// Writes all of it or leaves what was there. Throws InputError.
void write_costs(const std::filesystem::path& path, const ModelRequest& request,
                 const LoadedModel& model, const MeasuredCosts& costs);

}  // namespace cairn
