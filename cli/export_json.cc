#include "cli/export_report.h"
#include "cli/json.h"
#include "planner/op_costs.h"

namespace cairn {
namespace {

Json priced_json(const PricedPlan& plan) {
  return {{"name", plan.layers.name},
          {"kind", std::string(plan_kind_name(plan_form(plan.layers).kind))},
          {"words", layer_plan_words(plan.layers)},
          {"extent", std::string(extent_name(plan.layers.extent))},
          {"peak_bytes", plan.evaluation.trace.peak_bytes},
          {"extra_flops", plan.evaluation.trace.recompute_flops},
          {"slowdown", plan.slowdown}};
}

Json layers_json(const ExportAnswer& answer) {
  Json layers = Json::array();
  const LayerPlan& plan = answer.exported.layers;
  for (std::size_t i = 0; i < plan.layers.size(); ++i) {
    layers.push_back({{"path", plan.layers[i].path}, {"forward_runs", answer.layer_runs[i]}});
  }
  return layers;
}

}  // namespace

std::string export_json(const ExportReport& report) {
  const ExportAnswer& answer = report.answer;
  Json document = new_document();
  add_model(document, report.model);
  document["gpu"] = report.gpu ? Json(report.gpu->id) : Json();
  document["target"] = std::string(answer.target->name);
  document["versions"] = std::string(answer.target->versions);
  document["verdict"] = std::string(export_verdict_name(answer.verdict));
  document["reason"] = answer.reason.empty() ? Json() : Json(answer.reason);
  document["limit_bytes"] = answer.limit_bytes;
  document["keep_all_peak_bytes"] = answer.keep_all_peak_bytes;
  document["chosen"] = priced_json(answer.chosen);
  document["exported"] = priced_json(answer.exported);
  document["freest"] = answer.freest ? priced_json(*answer.freest) : Json();
  document["layers"] = layers_json(answer);
  document["traps"] = answer.traps;
  const bool is_refused = answer.verdict == ExportVerdict::kRefused;
  document["text"] = is_refused ? Json() : Json(exported_text(report));
  return json_text(document);
}

std::string export_targets_json() {
  Json document = new_document();
  document["targets"] = Json::array();
  for (const ExportTarget& target : export_targets()) {
    document["targets"].push_back({{"name", std::string(target.name)},
                                   {"title", std::string(target.title)},
                                   {"versions", std::string(target.versions)},
                                   {"extent", std::string(extent_name(target.extent))},
                                   {"can_be_told", vocabulary_words(target.vocabulary)}});
  }
  return json_text(document);
}

}  // namespace cairn
