#pragma once

#include <optional>
#include <string>

#include "cli/json.h"
#include "graph/measured_costs.h"
#include "models/load_model.h"

namespace CLI {  // NOLINT(readability-identifier-naming): CLI11's
class App;
}

// --costs FILE: measured times in place of a GPU's.

namespace cairn {

void add_costs_option(CLI::App& command, std::optional<std::string>& path);

// Reads the file of that path, if any, and gives the model's ops their times. Throws InputError
// where the file is none, or of another graph.
std::optional<MeasuredCosts> requested_costs(const std::optional<std::string>& path,
                                             const ModelRequest& request, LoadedModel& model);

// "costs ...": where the times come from; "" of none.
std::string costs_header(const std::optional<MeasuredCosts>& costs);
Json costs_json(const std::optional<MeasuredCosts>& costs);

}  // namespace cairn
