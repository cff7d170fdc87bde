#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "graph/graph.h"
#include "graph/plan.h"
#include "models/document.h"
#include "models/load_model.h"
#include "models/model_request.h"
#include "models/plan_origin.h"

// Plan files: an execution order and a tree of regions over the ops of one graph, all by name, and
// the plan's origin: how the graph is made and what it was like (models/plan_origin.h).
// docs/formats.md describes the format.

namespace cairn {

// Throws InputError at the place of the fault: a name that the graph has not, an order that is
// none, regions that overlap, a keep list that is useless. `extent` replaces the file's; a plan
// without a name gets that of its file. The file's origin has to be well-formed, no more.
Plan read_plan(const Document& document, const Graph& graph, std::optional<Extent> extent);

// The same for the model that the request has loaded. Throws InputError also where the file says
// that its plan is for another graph, and what is different.
Plan read_plan_of(const Document& document, const ModelRequest& request, const LoadedModel& model,
                  std::optional<Extent> extent);

// The file of that path, where it is a plan file; throws InputError for one that cannot be read.
std::optional<Document> find_plan_file(const std::string& path);

// The plan as a file; read_plan gives the same plan again.
std::string plan_file_text(const Graph& graph, const Plan& plan, const PlanOrigin& origin = {});

// These write all of it or leave what was there. They throw InputError. The first writes no origin.
void write_plan_file(const std::filesystem::path& path, const Graph& graph, const Plan& plan);
void write_plan_file(const std::filesystem::path& path, const ModelRequest& request,
                     const LoadedModel& model, const Plan& plan);

}  // namespace cairn
