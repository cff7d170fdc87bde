#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "graph/fingerprint.h"
#include "models/document.h"
#include "models/load_model.h"
#include "models/model_request.h"

// What a plan file says of the graph that its plan is for: how that graph is made, and how to know
// it again. Both are optional: a plan that somebody writes by hand has neither. A cost file says
// the same of the graph that was measured.

namespace cairn {

// A file that has these parts, as messages name it.
struct OriginFile {
  std::string_view version_key = "cairn_plan";
  std::string_view what = "a plan";
  std::string_view is_for = "this plan is for";
};
inline constexpr OriginFile kPlanOrigin = {};
inline constexpr OriginFile kCostOrigin = {
    .version_key = "cairn_costs", .what = "a cost file", .is_for = "these costs are of"};

struct PlanOrigin {
  std::optional<ModelRequest> model = {};  // with the defaults as they were taken
  bool is_file = false;                    // model->model is a path, else a name
  std::optional<Fingerprint> graph = {};
};

// Of the model that the request has loaded.
PlanOrigin plan_origin(const ModelRequest& request, const LoadedModel& model);
// And for this plan of its graph: who reads it takes layers for checkpointed where it has regions.
PlanOrigin plan_origin(const ModelRequest& request, const LoadedModel& model, const Plan& plan);

// The parts 'model' and 'graph' of a plan file, its paths as seen from here; whether they are there
// is not looked at. Throws InputError at the place, for another version of the format too.
PlanOrigin read_plan_origin(const Document& document, const OriginFile& file = kPlanOrigin);

// Whether a plan file has regions. What they are is not looked at.
bool has_regions(const Document& plan_file);

// The same parts as YAML, with paths as they are; "" for nothing.
std::string plan_origin_text(const PlanOrigin& origin);

// With its paths as a file in `folder` says them.
PlanOrigin seen_from(PlanOrigin origin, const std::filesystem::path& folder);

// An option of the request as a plan file has it.
struct RequestWord {
  std::string key = {};     // "optimizer_loop"
  std::string value = {};   // YAML; "" for what is not given, and a flag that is not set
  bool is_implied = false;  // needs no line in a plan file
};
// All options, always in the same order, whatever is given.
std::vector<RequestWord> request_words(const ModelRequest& request, bool is_file);

// Throws InputError at the place where the file says of its graph what is not true of this one:
// what was asked for then and now, which part of the graph differs, and from which op on.
void check_plan_origin(const Document& document, const ModelRequest& request,
                       const LoadedModel& model, const OriginFile& file = kPlanOrigin);

}  // namespace cairn
