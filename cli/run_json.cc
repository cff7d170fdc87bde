#include <algorithm>
#include <array>
#include <cmath>

#include "cli/json.h"
#include "cli/run_report.h"

namespace cairn {
namespace {

constexpr std::array<const char*, kExecutedKindCount> kKindKeys = {"forward_ns", "recompute_ns",
                                                                   "backward_ns", "optimizer_ns"};

// JSON has no NaN.
Json number_or_null(double number) { return std::isfinite(number) ? Json(number) : Json(); }

Json value_or_null(const std::optional<double>& value) { return value ? Json(*value) : Json(); }

Json bytes_difference_json(const std::optional<BytesDifference>& difference) {
  if (!difference) return {};
  return {{"training_step", difference->training_step},
          {"at", difference->place},
          {"simulated_during_bytes", difference->simulated_during_bytes},
          {"simulated_after_bytes", difference->simulated_after_bytes},
          {"measured_during_bytes", difference->measured_during_bytes},
          {"measured_after_bytes", difference->measured_after_bytes}};
}

Json executed_json(const Evaluation& evaluation, const ExecutedPlan& executed) {
  Json json;
  json["checkpointing"] = evaluation.name;
  json["simulated_peak_bytes"] = executed.simulated_peak_bytes;
  json["measured_peak_bytes"] = executed.measured_peak_bytes;
  json["compared_steps"] = executed.compared_steps;
  json["bytes_difference"] = bytes_difference_json(executed.bytes_difference);
  json["footprint_bytes"] = executed.footprint_bytes;
  json["step_ns"] = executed.step_ns;
  for (std::size_t i = 0; i < kExecutedKindCount; ++i) json[kKindKeys[i]] = executed.kind_ns[i];
  json["op_kinds"] = Json::array();
  for (const OpKindTime& time : executed.op_kinds) {
    json["op_kinds"].push_back({{"kind", time.op_kind},
                                {"forward_ns", time.forward_ns},
                                {"recompute_ns", time.recompute_ns},
                                {"backward_ns", time.backward_ns}});
  }
  json["losses"] = Json::array();
  for (const double loss : executed.losses) json["losses"].push_back(number_or_null(loss));
  return json;
}

Json gradient_difference_json(const RunReport& report) {
  const auto& difference = report.gradient_difference;
  if (!difference) return {};
  return {{"training_step", difference->training_step},
          {"parameter", report.graph.tensor(difference->parameter).name},
          {"element", difference->element},
          {"value", number_or_null(difference->value)},
          {"reference_value", number_or_null(difference->reference_value)}};
}

Json loss_difference_json(const std::optional<LossDifference>& difference) {
  if (!difference) return {};
  return {{"training_step", difference->training_step},
          {"value", number_or_null(difference->loss)},
          {"reference_value", number_or_null(difference->reference_loss)}};
}

}  // namespace

std::string run_json(const RunReport& report) {
  Json document = new_document();
  add_model(document, report.model);
  document["extent"] = std::string(extent_name(report.evaluation.plan.extent));
  document["device"] = report.device;
  document["training_steps"] = report.step_count;
  document["seed"] = report.seed;
  document["limit_bytes"] = report.limit_bytes ? Json(*report.limit_bytes) : Json();
  document["holds"] = holds(report);
  document["plan"] = executed_json(report.evaluation, report.executed);
  document["keep_all"] =
      report.reference ? executed_json(report.reference_evaluation, *report.reference) : Json();
  document["compared_gradients"] = Json();
  if (report.reference) {
    std::int64_t count = 0;
    for (const GradientHashes& hashes : report.executed.gradients) {
      count += static_cast<std::int64_t>(hashes.size());
    }
    document["compared_gradients"] = count;
  }
  document["gradient_difference"] = gradient_difference_json(report);
  document["loss_difference"] = loss_difference_json(report.loss_difference);
  document["measured_slowdown"] = value_or_null(report.slowdowns.measured);
  document["slowdown_by_op_times"] = value_or_null(report.slowdowns.by_times);
  document["slowdown_by_flops"] = report.slowdowns.by_flops;
  document["notes"] = report.notes;
  return json_text(document);
}

}  // namespace cairn
