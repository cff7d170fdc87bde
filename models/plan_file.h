#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "graph/graph.h"
#include "graph/plan.h"
#include "models/document.h"

// Plan files: an execution order and a tree of regions over the ops of one graph, all by name.
// docs/formats.md describes the format. A file says nothing of the graph: it is read for one.

namespace cairn {

// Throws InputError at the place of the fault: a name that the graph has not, an order that is
// none, regions that overlap, a keep list that is useless. `extent` replaces the file's; a plan
// without a name gets that of its file.
Plan read_plan(const Document& document, const Graph& graph, std::optional<Extent> extent);

// The plan as a file; read_plan gives the same plan again.
std::string plan_file_text(const Graph& graph, const Plan& plan);

// Writes all of it or leaves what was there. Throws InputError.
void write_plan_file(const std::filesystem::path& path, const Graph& graph, const Plan& plan);

}  // namespace cairn
