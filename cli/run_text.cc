#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "cli/header.h"
#include "cli/run_report.h"
#include "cli/table.h"
#include "cli/text.h"
#include "cli/units.h"

namespace cairn {
namespace {

constexpr std::size_t kFirstLosses = 4;
constexpr std::size_t kMostOpKinds = 8;  // and one row of all others
constexpr std::array<std::string_view, kExecutedKindCount> kKindNames = {"forward", "recompute",
                                                                         "backward", "optimizer"};

std::string counted(std::int64_t count, const std::string& noun) {
  return fmt::format("{} {}{}", grouped_text(count), noun, count == 1 ? "" : "s");
}

std::string device_header(const RunReport& report) {
  std::string text = fmt::format("{}, {}, seed {}", report.device,
                                 counted(report.step_count, "training step"), report.seed);
  if (report.limit_bytes) text += fmt::format(", at most {}", bytes_text(*report.limit_bytes));
  return labelled_text("device     ", text);
}

std::string bytes_difference_text(const std::string& name, const BytesDifference& difference) {
  return labelled_text(
      "", fmt::format("The bytes of {} differ first in training step {}, {}: simulated {} in it "
                      "and {} behind it, measured {} and {}.",
                      name, difference.training_step, difference.place,
                      grouped_text(difference.simulated_during_bytes),
                      grouped_text(difference.simulated_after_bytes),
                      grouped_text(difference.measured_during_bytes),
                      grouped_text(difference.measured_after_bytes)));
}

std::string differences_text(const RunReport& report) {
  const std::string& name = report.evaluation.name;
  std::string text;
  if (report.executed.bytes_difference) {
    text += bytes_difference_text(name, *report.executed.bytes_difference);
  }
  if (report.reference && report.reference->bytes_difference) {
    text += bytes_difference_text("keeping everything", *report.reference->bytes_difference);
  }
  if (const auto& difference = report.gradient_difference) {
    text += labelled_text(
        "", fmt::format("The gradient of {} differs first in training step {}, at element {}: {} "
                        "with {}, {} when everything is kept.",
                        report.graph.tensor(difference->parameter).name, difference->training_step,
                        grouped_text(difference->element), difference->value, name,
                        difference->reference_value));
  }
  if (const auto& difference = report.loss_difference) {
    text += labelled_text("", fmt::format("The loss differs first in training step {}: {} with {}, "
                                          "{} when everything is kept.",
                                          difference->training_step, difference->loss, name,
                                          difference->reference_loss));
  }
  if (!is_finite(report.executed)) {
    const std::string whose = report.reference && !is_finite(*report.reference)
                                  ? ", and when everything is kept too"
                                  : "";
    text += labelled_text(
        "", fmt::format("The loss of training step {} is {}{}: the run ends there.",
                        report.executed.losses.size(), report.executed.losses.back(), whose));
  }
  return text;
}

std::string verdict_text(const RunReport& report) {
  if (!holds(report)) return differences_text(report);
  const std::string& name = report.evaluation.name;
  if (!report.reference) {
    return labelled_text("", fmt::format("{} runs as simulated, to the byte.", name));
  }
  return labelled_text("", fmt::format("{} runs as simulated, to the byte; every gradient and loss "
                                       "is that of keeping everything, to the bit.",
                                       name));
}

struct Row {
  std::string name = {};
  const ExecutedPlan* executed = nullptr;
};

std::vector<Row> rows_of(const RunReport& report) {
  std::vector<Row> rows = {{report.evaluation.name, &report.executed}};
  if (report.reference) rows.push_back({"keep everything", &*report.reference});
  return rows;
}

std::string peaks_text(const RunReport& report) {
  Table table{.columns = {{"Peak of live bytes", Align::kLeft, 8},
                          {"simulated", Align::kRight},
                          {"measured", Align::kRight},
                          {""}}};
  for (const auto& [name, executed] : rows_of(report)) {
    table.rows.push_back(
        {"  " + name, grouped_text(executed->simulated_peak_bytes),
         grouped_text(executed->measured_peak_bytes),
         executed->bytes_difference
             ? "steps differ"
             : fmt::format("equal in all {}", counted(executed->compared_steps, "step"))});
  }
  return table_text(table);
}

std::string footprints_text(const RunReport& report) {
  Table table{.columns = {{"Memory of the process", Align::kLeft, 8},
                          {"predicted", Align::kRight},
                          {"measured", Align::kRight},
                          {"", Align::kRight}}};
  for (const auto& [name, executed] : rows_of(report)) {
    const double error = static_cast<double>(executed->footprint_bytes) /
                             static_cast<double>(executed->simulated_peak_bytes) -
                         1;
    table.rows.push_back({"  " + name, bytes_text(executed->simulated_peak_bytes),
                          bytes_text(executed->footprint_bytes),
                          fmt::format("{:+.1f} %", 100 * error)});
  }
  return table_text(table);
}

std::string times_text(const RunReport& report) {
  const std::vector<Row> rows = rows_of(report);
  Table table{.columns = {{"Time of a step"}}};
  for (const Row& row : rows) table.columns.push_back({row.name, Align::kRight, 8});
  for (std::size_t kind = 0; kind < kExecutedKindCount; ++kind) {
    const bool is_there = std::any_of(
        rows.begin(), rows.end(), [&](const Row& row) { return row.executed->kind_ns[kind] > 0; });
    if (!is_there) continue;
    std::vector<std::string> cells = {"  " + std::string(kKindNames[kind])};
    for (const Row& row : rows) {
      const std::int64_t time_ns = row.executed->kind_ns[kind];
      cells.push_back(time_ns == 0 ? "" : duration_text(time_ns));
    }
    table.rows.push_back(std::move(cells));
  }
  std::vector<std::string> all = {"  all"};
  for (const Row& row : rows) all.push_back(duration_text(row.executed->step_ns));
  table.rows.push_back(std::move(all));
  std::string text = table_text(table);
  const Slowdowns& slowdowns = report.slowdowns;
  if (slowdowns.measured && report.evaluation.trace.recompute_count > 0) {
    text += labelled_text(
        "", fmt::format("Recomputing costs {}; {} by the times of the ops when everything is kept, "
                        "{} by FLOPs.",
                        increase_text(*slowdowns.measured), increase_text(*slowdowns.by_times),
                        increase_text(slowdowns.by_flops)));
  }
  return text;
}

// The kinds that took the most, and all others in one row.
std::vector<OpKindTime> op_kind_rows(std::vector<OpKindTime> times, const std::string& others) {
  if (times.size() <= kMostOpKinds + 1) return times;
  OpKindTime rest{.op_kind = others};
  for (std::size_t i = kMostOpKinds; i < times.size(); ++i) {
    rest.forward_ns += times[i].forward_ns;
    rest.recompute_ns += times[i].recompute_ns;
    rest.backward_ns += times[i].backward_ns;
  }
  times.resize(kMostOpKinds);
  times.push_back(rest);
  return times;
}

std::string op_kinds_text(const RunReport& report) {
  const ExecutedPlan& executed = report.executed;
  const std::string others = fmt::format(
      "{} others", executed.op_kinds.size() - std::min(executed.op_kinds.size(), kMostOpKinds));
  const std::vector<OpKindTime> rows = op_kind_rows(executed.op_kinds, others);
  const bool recomputes = std::any_of(rows.begin(), rows.end(),
                                      [](const OpKindTime& row) { return row.recompute_ns > 0; });
  Table table{.columns = {{"Time by op kind, " + report.evaluation.name, Align::kLeft, 15},
                          {"forward", Align::kRight}}};
  if (recomputes) table.columns.push_back({"recompute", Align::kRight});
  table.columns.push_back({"backward", Align::kRight});
  table.columns.push_back({"of the step", Align::kRight});
  const auto text = [](std::int64_t ns) { return ns == 0 ? "" : duration_text(ns); };
  for (const OpKindTime& row : rows) {
    std::vector<std::string> cells = {"  " + std::string(row.op_kind), text(row.forward_ns)};
    if (recomputes) cells.push_back(text(row.recompute_ns));
    cells.push_back(text(row.backward_ns));
    cells.push_back(share_text(all_ns(row), executed.step_ns));
    table.rows.push_back(std::move(cells));
  }
  return table_text(table);
}

std::string losses_text(const std::vector<double>& losses) {
  std::string text;
  for (std::size_t i = 0; i < losses.size(); ++i) {
    const bool is_last = i + 1 == losses.size();
    if (i < kFirstLosses || is_last) text += fmt::format("{}{:.9g}", i == 0 ? "" : ", ", losses[i]);
    if (i == kFirstLosses && !is_last) text += ", ...";
  }
  return text;
}

std::string compared_text(const RunReport& report) {
  std::string text = labelled_text("Loss       ", losses_text(report.executed.losses));
  if (!report.reference) return text;
  std::int64_t parameters = 0;
  for (const GradientHashes& hashes : report.executed.gradients) {
    parameters = std::max(parameters, static_cast<std::int64_t>(hashes.size()));
  }
  return text + labelled_text(
                    "Gradients  ",
                    fmt::format("of {} compared, in {}", counted(parameters, "parameter"),
                                counted(static_cast<std::int64_t>(report.executed.gradients.size()),
                                        "training step")));
}

}  // namespace

std::string run_text(const RunReport& report) {
  std::string text = model_header(report.model) + extent_header(report.evaluation.plan.extent) +
                     device_header(report);
  text += "\n" + verdict_text(report);
  text += "\n" + peaks_text(report);
  text += "\n" + footprints_text(report);
  text += "\n" + times_text(report);
  text += "\n" + op_kinds_text(report);
  text += "\n" + compared_text(report);
  if (!report.notes.empty()) text += "\n";
  for (const std::string& note : report.notes) text += labelled_text("Note: ", note);
  return text;
}

}  // namespace cairn
