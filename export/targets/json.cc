#include <nlohmann/json.hpp>

#include "export/export_plan.h"
#include "export/targets.h"

// A plan by layers, modules and ops, for programs to read: any plan, exactly.

namespace cairn {
namespace {

using Json = nlohmann::ordered_json;

// Of a plan whose ops are in another order than the model's: it has no layers in one piece.
Json region_json(const ExportAnswer& answer, const Region& region) {
  const Graph& graph = *answer.graph;
  const auto op_at = [&](std::int32_t position) {
    const Plan& plan = answer.exported.evaluation.plan;
    return graph.op(plan.order[static_cast<std::size_t>(position)]).name;
  };
  Json json = {{"first_op", op_at(region.begin)}, {"last_op", op_at(region.end - 1)}};
  json["layers"] = Json::array();
  json["modules"] = Json::array();
  json["keep"] = Json::array();
  for (const TensorId kept : region.keep) json["keep"].push_back(graph.tensor(kept).name);
  json["regions"] = Json::array();
  for (const Region& inner : region.inner) json["regions"].push_back(region_json(answer, inner));
  return json;
}

Json region_json(const ExportAnswer& answer, const LayerRegion& region) {
  const Graph& graph = *answer.graph;
  Json json;
  json["first_op"] = graph.ops[static_cast<std::size_t>(region.begin)].name;
  json["last_op"] = graph.ops[static_cast<std::size_t>(region.end) - 1].name;
  json["layers"] = Json::array();
  for (std::int32_t i = region.first_layer; i >= 0 && i < region.end_layer; ++i) {
    json["layers"].push_back(i);
  }
  json["modules"] = region.modules;
  json["keep"] = Json::array();
  for (const TensorId kept : region.keep) json["keep"].push_back(graph.tensor(kept).name);
  json["regions"] = Json::array();
  for (const LayerRegion& inner : region.inner) {
    json["regions"].push_back(region_json(answer, inner));
  }
  return json;
}

std::string write(const ExportAnswer& answer) {
  const LayerPlan& plan = answer.exported.layers;
  const Evaluation& evaluation = answer.exported.evaluation;
  Json json;
  json["made_by"] = "cairn " + answer.request.version;
  json["layer_plan"] = 1;
  json["model"] = answer.request.model;
  json["name"] = plan.name;
  json["kind"] = std::string(plan_kind_name(plan_form(plan).kind));
  json["extent"] = std::string(extent_name(plan.extent));
  json["peak_bytes"] = evaluation.trace.peak_bytes;
  json["slowdown"] = answer.exported.slowdown;
  json["layers"] = Json::array();
  for (std::size_t i = 0; i < plan.layers.size(); ++i) {
    json["layers"].push_back({{"path", plan.layers[i].path},
                              {"is_module", plan.layers[i].is_module},
                              {"forward_runs", answer.layer_runs[i]}});
  }
  // Only where it is another than the model's.
  json["order"] = Json::array();
  if (!plan.is_in_graph_order) {
    for (const OpId op : evaluation.plan.order) json["order"].push_back(answer.graph->op(op).name);
  }
  json["regions"] = Json::array();
  if (plan.is_in_graph_order) {
    for (const LayerRegion& region : plan.regions) {
      json["regions"].push_back(region_json(answer, region));
    }
  } else {
    for (const Region& region : evaluation.plan.regions) {
      json["regions"].push_back(region_json(answer, region));
    }
  }
  return json.dump(2) + "\n";
}

}  // namespace

ExportTarget json_target() {
  return {.name = "json",
          .title = "The plan by layers, modules and ops, for programs",
          .versions = "any",
          .vocabulary = {.anything = true},
          .extent = Extent::kPrefix,
          .behaviour = {.is_torch = false},
          .comment = "",
          .write = write};
}

}  // namespace cairn
