#include "cli/costs_option.h"
#include "cli/frontier_rows.h"
#include "cli/json.h"
#include "cli/plan_report.h"
#include "cli/step_names.h"

// `cairn plan --json`: one object, every number exact.

namespace cairn {
namespace {

constexpr std::size_t kMostLiveItems = 10;

std::string_view budget_kind_name(BudgetKind kind) {
  switch (kind) {
    case BudgetKind::kBytes:
      return "bytes";
    case BudgetKind::kPercent:
      return "percent";
    case BudgetKind::kGpu:
      return "gpu";
  }
  return {};
}

Json names_of(const Graph& graph, const std::vector<TensorId>& tensors) {
  Json names = Json::array();
  for (const TensorId tensor : tensors) names.push_back(graph.tensor(tensor).name);
  return names;
}

// The tree as a list, each region in front of those inside it.
void add_regions(const Graph& graph, const Plan& plan, const std::vector<Region>& regions,
                 const Json& parent, Json& list) {
  for (const Region& region : regions) {
    const auto op_at = [&](std::int32_t position) {
      return graph.op(plan.order[static_cast<std::size_t>(position)]).name;
    };
    const Json number = list.size();
    list.push_back({{"parent", parent},
                    {"first", op_at(region.begin)},
                    {"last", op_at(region.end - 1)},
                    {"keep", names_of(graph, region.keep)}});
    add_regions(graph, plan, region.inner, number, list);
  }
}

Json plan_of(const Graph& graph, const Plan& plan) {
  Json json;
  json["name"] = plan.algorithm;
  json["extent"] = std::string(extent_name(plan.extent));
  json["regions"] = Json::array();
  add_regions(graph, plan, plan.regions, Json(), json["regions"]);
  return json;
}

Json bound_json(const PlanReport& report, const PlanAnswer& answer) {
  if (!answer.is_feasible) return {};
  const std::int64_t gap = answer.extra_cost - answer.bound.extra_cost;
  return {{"extra_cost", answer.bound.extra_cost},
          {"slowdown", cost_share(report, answer.bound.extra_cost)},
          {"gap", cost_share(report, gap)},
          {"reason", answer.bound.reason}};
}

Json answer_json(const PlanReport& report, const PlanAnswer& answer) {
  const Graph& graph = report.model.graph;
  const Evaluation& evaluation = answer.evaluation;
  const Trace& trace = evaluation.trace;
  Json json;
  json["fits"] = answer.is_feasible;
  json["peak_bytes"] = trace.peak_bytes;
  json["headroom_bytes"] = report.budget_bytes - trace.peak_bytes;
  json["peak_at"] = peak_place(graph, evaluation);
  json["breakdown"] = breakdown_json(trace);
  json["live_at_peak"] = Json::array();
  for (const LiveItem& item : trace.live_at_peak) {
    if (json["live_at_peak"].size() == kMostLiveItems) break;
    json["live_at_peak"].push_back(
        {{"name", item.name}, {"category", category_key(item.category)}, {"bytes", item.bytes}});
  }
  json["extra_cost"] = answer.extra_cost;
  json["slowdown"] = cost_share(report, answer.extra_cost);
  json["extra_flops"] = trace.recompute_flops;
  json["recompute_count"] = trace.recompute_count;
  json["step_time_ns"] = evaluation.time ? Json(evaluation.time->total_ns) : Json();
  json["optimal_for"] = answer.optimal_for.empty() ? Json() : Json(answer.optimal_for);
  json["lower_bound"] = bound_json(report, answer);
  json["plan_count"] = answer.plan_count;
  json["plan"] = plan_of(graph, evaluation.plan);
  return json;
}

Json share_or_null(const PlanReport& report, std::optional<std::int64_t> cost) {
  return cost ? Json(cost_share(report, *cost)) : Json();
}

Json unrestricted_json(const PlanReport& report) {
  if (!report.unrestricted) return {};
  return {{"same_extent_slowdown", share_or_null(report, report.unrestricted->same_extent)},
          {"ideal_extent_slowdown", share_or_null(report, report.unrestricted->ideal_extent)}};
}

Json shapes_json(const PlanReport& report) {
  Json shapes = Json::array();
  for (const PlannedShape& shape : report.shapes) {
    shapes.push_back({{"batch", shape.batch},
                      {"tokens", shape.tokens > 0 ? Json(shape.tokens) : Json()},
                      {"weight", shape.weight},
                      {"keep_all_peak_bytes", shape.keep_all_peak_bytes},
                      {"peak_bytes", shape.peak_bytes},
                      {"extra_cost", shape.extra_cost},
                      {"step_cost", shape.step_cost}});
  }
  return shapes;
}

Json compared_json(const PlanReport& report) {
  Json rows = Json::array();
  for (const ComparedAlgorithm& row : report.compared) {
    Json json;
    json["algorithm"] = row.name;
    json["refusal"] = row.answer ? Json() : Json(row.refusal);
    const bool is_there = row.answer.has_value();
    json["plan"] = is_there ? Json(row.answer->evaluation.plan.algorithm) : Json();
    json["fits"] = is_there ? Json(row.answer->is_feasible) : Json();
    json["peak_bytes"] = is_there ? Json(row.answer->evaluation.trace.peak_bytes) : Json();
    json["extra_cost"] = is_there ? Json(row.answer->extra_cost) : Json();
    json["slowdown"] = is_there ? Json(cost_share(report, row.answer->extra_cost)) : Json();
    json["extra_flops"] = is_there ? Json(row.answer->evaluation.trace.recompute_flops) : Json();
    rows.push_back(std::move(json));
  }
  return rows;
}

Json frontier_json(const PlanReport& report) {
  if (!report.frontier) return {};
  const Frontier& frontier = *report.frontier;
  Json json;
  json["knee"] = frontier.knee;
  json["points"] = Json::array();
  for (std::size_t i = 0; i < frontier.points.size(); ++i) {
    const FrontierPoint& point = frontier.points[i];
    Json row;
    row["peak_bytes"] = point.peak_bytes;
    row["extra_cost"] = point.extra_cost;
    row["slowdown"] = cost_share(report, point.extra_cost);
    row["cost_per_byte"] = i == 0 ? Json() : Json(marginal_price(frontier.points[i - 1], point));
    row["plan"] = plan_of(report.model.graph, point.plan);
    json["points"].push_back(std::move(row));
  }
  return json;
}

Json budget_json(const PlanReport& report) {
  if (!report.budget) return {};
  return {{"kind", std::string(budget_kind_name(report.budget->kind))},
          {"text", report.budget->text},
          {"bytes", report.budget_bytes}};
}

}  // namespace

std::string plan_json(const PlanReport& report) {
  Json document = new_document();
  add_model(document, report.model);
  document["extent"] = std::string(extent_name(report.extent));
  document["target"] = std::string(target_name(report.target));
  document["gpu"] = report.gpu ? Json(report.gpu->id) : Json();
  document["costs"] = costs_json(report.costs);
  document["algorithm"] = strategy_name(report.strategy);
  document["keep"] = names_of(report.model.graph, report.pinned.keep);
  document["recompute"] = names_of(report.model.graph, report.pinned.recompute);
  document["keep_all_peak_bytes"] = report.keep_all_peak_bytes;
  document["cost_unit"] = std::string(cost_unit_name(report.unit));
  document["step_cost"] = report.step_cost;
  document["step_flops"] = report.step_flops;
  document["budget"] = budget_json(report);
  document["verdict"] = report.answer ? Json(plan_verdict(report)) : Json();
  document["answer"] = report.answer ? answer_json(report, *report.answer) : Json();
  document["auto_answer"] = report.automatic ? answer_json(report, *report.automatic) : Json();
  document["unrestricted"] = unrestricted_json(report);
  document["shapes"] = shapes_json(report);
  document["compared"] = compared_json(report);
  document["frontier"] = frontier_json(report);
  document["advice"] = report.advice;
  document["notes"] = report.notes;
  return json_text(document);
}

}  // namespace cairn
