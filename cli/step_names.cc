#include "cli/step_names.h"

#include <fmt/format.h>

#include <algorithm>

#include "graph/checked.h"
#include "graph/error.h"
#include "graph/evaluation_graph.h"
#include "sim/simulator.h"

namespace cairn {

ForwardPeak peak_without_gradients(const Graph& graph) {
  const Graph forward = evaluation_graph(graph);
  const Plan plan = keep_all_plan(forward);
  const Schedule schedule = lower(forward, plan);
  const Trace evaluated = simulate(forward, plan, schedule);
  const PhasePeak& largest =
      *std::max_element(evaluated.phases.begin(), evaluated.phases.end(),
                        [](const PhasePeak& a, const PhasePeak& b) { return a.bytes < b.bytes; });
  return {.bytes = largest.bytes,
          .place = step_subject(forward, schedule, schedule.steps[largest.step])};
}

std::vector<PhaseRow> phase_rows(const Graph& graph, const Evaluation& evaluation,
                                 const ForwardPeak& without_gradients) {
  const Trace& trace = evaluation.trace;
  const std::int64_t weight_bytes =
      checked_add(parameter_bytes(graph), master_weight_bytes(graph), "load");
  std::vector<PhaseRow> rows = {
      {.phase = Phase::kLoad,
       .later_bytes = checked_add(weight_bytes, main_gradient_bytes(graph), "load")}};
  for (const PhasePeak& later : trace.phases) {
    const auto first =
        std::find_if(trace.first_phases.begin(), trace.first_phases.end(),
                     [&](const PhasePeak& peak) { return peak.phase == later.phase; });
    const Step& step = evaluation.schedule.steps[later.step];
    rows.push_back({.phase = later.phase,
                    .first_bytes = first->bytes,
                    .later_bytes = later.bytes,
                    .place = step_subject(graph, evaluation.schedule, step)});
  }
  const std::int64_t kept_bytes =
      keeps_gradients(graph, evaluation.schedule) ? gradient_bytes(graph) : 0;
  rows.push_back({.phase = Phase::kEvaluation,
                  .later_bytes = checked_add(without_gradients.bytes, kept_bytes, "evaluation"),
                  .place = without_gradients.place});
  rows.push_back({.phase = Phase::kSave, .later_bytes = trace.resident_bytes});
  return rows;
}

std::string step_subject(const Graph& graph, const Schedule& schedule, const Step& step) {
  if (step.kind == StepKind::kOptimizerStep) {
    const std::vector<TensorId>& stepped =
        schedule.groups[static_cast<std::size_t>(step.group)].parameters;
    return stepped.size() == 1 ? graph.tensor(stepped[0]).name : "";
  }
  return graph.op(step.op).name;
}

std::string step_place(const Graph& graph, const Schedule& schedule, const Step& step) {
  const std::string subject = step_subject(graph, schedule, step);
  if (subject.empty()) return std::string(step_kind_name(step.kind));
  return fmt::format("{} of {}{}", step_kind_name(step.kind), subject,
                     step.micro_batch == 0 ? "" : " in a later micro-batch");
}

const Step& peak_step(const Evaluation& evaluation) {
  const Trace& trace = evaluation.trace;
  CAIRN_CHECK(!trace.steps.empty(), "a graph has at least one op");
  return evaluation.schedule.steps[trace.steps[trace.peak_entry].step];
}

std::string peak_place(const Graph& graph, const Evaluation& evaluation) {
  return step_place(graph, evaluation.schedule, peak_step(evaluation));
}

}  // namespace cairn
