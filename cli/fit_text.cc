#include <fmt/format.h>

#include "cli/fit.h"
#include "cli/header.h"
#include "cli/peak.h"
#include "cli/phases.h"
#include "cli/table.h"
#include "cli/text.h"
#include "cli/units.h"
#include "cli/ways_to_train.h"

// `cairn fit` for people: the answer first, then what it rests on.

namespace cairn {
namespace {

constexpr std::size_t kLargestGroups = 5;

double extra_flops_share(const FitAnswer& answer, const Evaluation& evaluation) {
  if (answer.step_flops == 0) return 0;
  return static_cast<double>(extra_flops(answer, evaluation)) /
         static_cast<double>(answer.step_flops);
}

// Of "none" the time itself, of the others what they add to it.
std::string time_cell(const FitAnswer& answer, std::size_t row) {
  const Evaluation& evaluation = answer.evaluations[row];
  if (row == 0) return duration_text(evaluation.time->total_ns);
  return increase_text(answer.advice_input.strategies[row].slowdown);
}

// "backward layers.31.down".
std::string peak_cell(const Graph& graph, const Evaluation& evaluation) {
  const Step& peak = peak_step(evaluation);
  const std::string subject = step_subject(graph, evaluation.schedule, peak);
  const std::string kind(step_kind_name(peak.kind));
  return subject.empty() ? kind : kind + " " + subject;
}

std::string strategy_table(const FitAnswer& answer) {
  const std::optional<std::int64_t> capacity = answer.advice_input.capacity_bytes;
  Table table{.columns = {{"strategy"}, {"peak", Align::kRight}}};
  if (capacity) {
    table.columns.push_back({"fits"});
    table.columns.push_back({"headroom", Align::kRight});
  }
  table.columns.push_back({"extra\nFLOPs", Align::kRight});
  if (answer.slowdown_is_time) table.columns.push_back({"step\ntime", Align::kRight});
  table.columns.push_back({"peak at"});
  for (std::size_t i = 0; i < answer.evaluations.size(); ++i) {
    const Evaluation& evaluation = answer.evaluations[i];
    const std::int64_t peak_bytes = evaluation.trace.peak_bytes;
    std::vector<std::string> row = {evaluation.name, bytes_text(peak_bytes)};
    if (capacity) {
      row.emplace_back(peak_bytes <= *capacity ? "yes" : "no");
      row.push_back(bytes_text(*capacity - peak_bytes));
    }
    row.push_back(i == 0 ? "-" : increase_text(extra_flops_share(answer, evaluation)));
    if (answer.slowdown_is_time) row.push_back(time_cell(answer, i));
    row.push_back(peak_cell(model_of(answer, evaluation).graph, evaluation));
    table.rows.push_back(std::move(row));
  }
  return table_text(table);
}

std::string peak_text(const FitAnswer& answer) {
  const Evaluation& best = answer.evaluations[answer.recommended];
  std::string text = fmt::format("Peaks of {} by phase\n", best.name) +
                     phases_text(model_of(answer, best).graph, best, answer.without_gradients) +
                     "\n";
  text += labelled_text(
      "", fmt::format("Peak of {}: {}, in the {}", best.name, bytes_text(best.trace.peak_bytes),
                      peak_place(model_of(answer, best).graph, best)));
  text += breakdown_text(best.trace);
  const std::string groups = largest_groups_text(best.trace, kLargestGroups, false);
  if (!groups.empty()) {
    text += "Largest in it besides parameters, gradients and optimizer states\n" + groups;
  }
  return text;
}

}  // namespace

std::string fit_text(const FitAnswer& answer) {
  std::string text = model_header(answer.model);
  if (answer.gpu) text += gpu_header(*answer.gpu);
  text += extent_header(answer.extent);
  if (!answer.verdict.empty()) text += "\n" + labelled_text("", answer.verdict);
  if (!answer.ways.empty()) {
    text += "\n" + ways_text(answer.ways, answer.advice_input.capacity_bytes);
  }
  text += "\n" + strategy_table(answer);
  text += "\n" + peak_text(answer);
  if (!answer.explanation.empty()) {
    const Evaluation& best = answer.evaluations[answer.recommended];
    text += "\n" + explanation_text(model_of(answer, best), best, answer.explanation);
  }
  if (!answer.advice.empty()) text += "\nAdvice\n";
  for (const std::string& line : answer.advice) text += labelled_text("- ", line);
  text += "\n";
  for (const std::string& note : answer.notes) text += labelled_text("Note: ", note);
  std::string missing;
  for (const std::string& what : not_counted()) missing += (missing.empty() ? "" : ", ") + what;
  return text + labelled_text("Not counted yet: ", missing + ".");
}

}  // namespace cairn
