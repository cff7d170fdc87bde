#include <fmt/format.h>

#include "cli/export_report.h"
#include "cli/header.h"
#include "cli/table.h"
#include "cli/text.h"
#include "cli/units.h"
#include "cli/version.h"

// `cairn export` for people: a header of the emitted text, a report where that goes to a file, and
// the list of targets.

namespace cairn {
namespace {

constexpr std::string_view kMadeBy = "Made by cairn ";

std::string cost_words(const ExportReport& report, double slowdown) {
  return fmt::format("{} {}", increase_text(slowdown),
                     report.answer.is_in_time ? "step time" : "FLOPs");
}

std::string priced_text(const ExportReport& report, const PricedPlan& plan) {
  const std::int64_t peak = plan.evaluation.trace.peak_bytes;
  return fmt::format("{} ({} bytes), {}", bytes_text(peak), grouped_text(peak),
                     cost_words(report, plan.slowdown));
}

// What both the header and the report say, a line each, broken.
std::string summary(const ExportReport& report) {
  const ExportAnswer& answer = report.answer;
  std::string text;
  text += labelled_text("target     ",
                        fmt::format("{}: {}", answer.target->name, answer.target->title));
  text += labelled_text("versions   ", std::string(answer.target->versions));
  text +=
      labelled_text("verdict    ", fmt::format("{}{}{}", export_verdict_name(answer.verdict),
                                               answer.reason.empty() ? "" : ": ", answer.reason));
  text += labelled_text("plan       ", fmt::format("{}: {}, extent {}", answer.exported.layers.name,
                                                   layer_plan_words(answer.exported.layers),
                                                   extent_name(answer.exported.layers.extent)));
  text += labelled_text("peak       ", priced_text(report, answer.exported));
  if (!answer.request.is_best) {
    text += labelled_text("asked for  ", fmt::format("{}: {}", answer.chosen.layers.name,
                                                     priced_text(report, answer.chosen)));
  } else {
    text +=
        labelled_text("budget     ", fmt::format("{} ({} bytes)", bytes_text(answer.limit_bytes),
                                                 grouped_text(answer.limit_bytes)));
  }
  if (answer.freest) {
    text += labelled_text("freer      ", fmt::format("any plan with this extent: {}",
                                                     priced_text(report, *answer.freest)));
  }
  for (const std::string& trap : answer.traps) text += labelled_text("mind       ", trap);
  return text;
}

}  // namespace

std::string exported_text(const ExportReport& report) {
  const ExportAnswer& answer = report.answer;
  if (answer.target->comment.empty()) return answer.text;
  std::string header = fmt::format("{}{}\n", kMadeBy, kVersion) + model_header(report.model);
  if (report.gpu) header += gpu_header(*report.gpu);
  header += summary(report);
  std::string text;
  for (std::size_t begin = 0; begin < header.size();) {
    const std::size_t end = header.find('\n', begin);
    text += fmt::format("{}{}\n", answer.target->comment, header.substr(begin, end - begin));
    begin = end + 1;
  }
  return text + "\n" + answer.text;
}

bool is_exported_text(const std::string& text) {
  constexpr std::size_t kBeginning = 200;
  const std::string beginning = text.substr(0, kBeginning);
  return beginning.find(kMadeBy) != std::string::npos ||
         beginning.find("\"made_by\": \"cairn ") != std::string::npos;
}

std::string export_verdict(const ExportReport& report) {
  const ExportAnswer& answer = report.answer;
  if (answer.verdict != ExportVerdict::kRefused) {
    return fmt::format("{} for {}{}{}: {}; the peak is {}", export_verdict_name(answer.verdict),
                       answer.target->name, answer.reason.empty() ? "" : ", ", answer.reason,
                       layer_plan_words(answer.exported.layers),
                       bytes_text(answer.exported.evaluation.trace.peak_bytes));
  }
  const std::int64_t peak = answer.exported.evaluation.trace.peak_bytes;
  return fmt::format(
      "{}: refused, {}; of those the least peak is {} ({} bytes), {} above {}, with {}; --best "
      "--budget {}B exports it",
      answer.target->name, answer.reason, bytes_text(peak), grouped_text(peak),
      bytes_text(peak - answer.limit_bytes), bytes_text(answer.limit_bytes),
      layer_plan_words(answer.exported.layers), peak);
}

std::string export_text(const ExportReport& report) {
  std::string text = model_header(report.model);
  if (report.gpu) text += gpu_header(*report.gpu);
  return text + summary(report);
}

std::string export_targets_text() {
  Table table{.columns = {{"target"}, {"versions"}, {"can be told", Align::kLeft, 0, true}}};
  for (const ExportTarget& target : export_targets()) {
    std::string words;
    for (const std::string& word : vocabulary_words(target.vocabulary)) {
      words += (words.empty() ? "" : ", ") + word;
    }
    table.rows.push_back({std::string(target.name), std::string(target.versions), words});
  }
  return table_text(table);
}

}  // namespace cairn
