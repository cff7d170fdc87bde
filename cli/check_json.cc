#include "cli/check.h"

// The JSON of `cairn check`; docs/json.md describes it.

namespace cairn {
namespace {

Json text_or_null(const std::string& text) { return text.empty() ? Json() : Json(text); }

Json share_or_null(const std::optional<double>& share) { return share ? Json(*share) : Json(); }

void add_statistics(Json& object, const ErrorStatistics& statistics) {
  object["cases"] = statistics.count;
  object["median_error"] = statistics.median;
  object["percentile_90_error"] = statistics.percentile_90;
  object["worst_error"] = statistics.worst;
  object["worst_case"] = text_or_null(statistics.worst_id);
}

Json case_json(const CheckedCase& checked) {
  const MeasuredCase& measured = checked.measured;
  const bool is_computed = checked.computed_bytes.has_value();
  return {{"id", measured.id},
          {"kind", measured.kind},
          {"metric", metric_name(measured.metric)},
          {"confidence", measured.confidence},
          {"blind", measured.is_blind ? Json(*measured.is_blind) : Json()},
          {"published", measured.value_text},
          {"published_bytes", measured.value_bytes},
          {"computed_bytes", is_computed ? Json(*checked.computed_bytes) : Json()},
          {"error", is_computed ? Json(error_of(checked)) : Json()},
          {"allocation", text_or_null(checked.detail)},
          {"not_modelled", text_or_null(measured.not_modelled)},
          {"known", text_or_null(measured.known)},
          {"source", measured.source},
          {"date", measured.date}};
}

Json bound_json(const CheckedBound& checked) {
  const MeasuredBound& bound = checked.bound;
  Json object = {{"metrics", bound.metrics},
                 {"kinds", bound.kinds},
                 {"confidence", bound.confidence ? Json(*bound.confidence) : Json()},
                 {"median", share_or_null(bound.median)},
                 {"percentile_90", share_or_null(bound.percentile_90)},
                 {"worst", share_or_null(bound.worst)},
                 {"met", checked.is_met}};
  add_statistics(object, checked.statistics);
  return object;
}

}  // namespace

std::string check_json(const CheckAnswer& answer) {
  Json document = new_document();
  document["cases"] = Json::array();
  for (const CheckedCase& checked : answer.cases) document["cases"].push_back(case_json(checked));
  document["groups"] = Json::array();
  for (const ErrorGroup& group : answer.groups) {
    Json object = {{"metric", group.metric}, {"confidence", group.confidence}};
    add_statistics(object, group.statistics);
    document["groups"].push_back(std::move(object));
  }
  document["bounds"] = Json::array();
  for (const CheckedBound& bound : answer.bounds) document["bounds"].push_back(bound_json(bound));
  return json_text(document);
}

}  // namespace cairn
