#include <fmt/format.h>

#include "cli/check.h"
#include "cli/units.h"

// docs/accuracy.md.

namespace cairn {
namespace {

constexpr std::string_view kHead =
    R"(# How near published measurements the simulator comes

Made by `cairn check tests/measured --md docs/accuracy.md`; do not edit it. The cases, with their
configurations and sources, are in `tests/measured/*.yaml`
([formats.md](formats.md#measurement-files)); nothing in the program was fitted to one. An error is
computed over published, less 1. The 90th percentile is the smallest error, without its sign, that
at least 90 % of the cases do not pass; the median of an even number is the mean of the two in the
middle. Confidence 3: the source fully determines the run; 2: mostly; 1: partly. "Blind": the rules
stood before the number was seen.
)";

std::string in_cell(const std::string& text) {
  std::string cell;
  for (const char c : text) {
    if (c == '|') cell += '\\';
    cell += c;
  }
  return cell;
}

std::string groups_table(const CheckAnswer& answer) {
  std::string text =
      "\n## By metric and confidence\n\n"
      "| metric | confidence | cases | median | 90th percentile | worst | which |\n"
      "|---|---|---|---|---|---|---|\n";
  for (const ErrorGroup& group : answer.groups) {
    const ErrorStatistics& statistics = group.statistics;
    text += fmt::format("| `{}` | {} | {} | {} | {} | {} | {} |\n", group.metric, group.confidence,
                        statistics.count, magnitude_text(statistics.median),
                        magnitude_text(statistics.percentile_90), magnitude_text(statistics.worst),
                        statistics.worst_id);
  }
  return text;
}

std::string bounds_table(const CheckAnswer& answer) {
  if (answer.bounds.empty()) return {};
  std::string text =
      "\n## Bounds\n\n| over | bound | cases | median | 90th percentile | worst | met |\n"
      "|---|---|---|---|---|---|---|\n";
  for (const CheckedBound& checked : answer.bounds) {
    const ErrorStatistics& statistics = checked.statistics;
    text += fmt::format("| {} | {} | {} | {} | {} | {} | {} |\n", bound_scope(checked.bound),
                        bound_limits(checked.bound), statistics.count,
                        magnitude_text(statistics.median), magnitude_text(statistics.percentile_90),
                        magnitude_text(statistics.worst), checked.is_met ? "yes" : "**no**");
  }
  return text;
}

std::string blind_text(const MeasuredCase& measured) {
  return !measured.is_blind ? "" : *measured.is_blind ? "yes" : "no";
}

std::string cases_table(const CheckAnswer& answer) {
  std::string text =
      "\n## Cases\n\n| case | kind | metric | confidence | blind | published | computed | error |\n"
      "|---|---|---|---|---|---|---|---|\n";
  for (const CheckedCase& checked : answer.cases) {
    if (!checked.computed_bytes) continue;
    const MeasuredCase& measured = checked.measured;
    text += fmt::format("| {} | {} | `{}` | {} | {} | {} | {} | {} |\n", measured.id, measured.kind,
                        metric_name(measured.metric), measured.confidence, blind_text(measured),
                        in_cell(measured.value_text), bytes_text(*checked.computed_bytes),
                        error_text(error_of(checked)));
  }
  return text;
}

std::string remarks(const CheckAnswer& answer) {
  std::string allocations;
  std::string known;
  std::string not_modelled;
  for (const CheckedCase& checked : answer.cases) {
    const MeasuredCase& measured = checked.measured;
    if (!checked.detail.empty()) {
      allocations += fmt::format("| {} | `{}` |\n", measured.id, in_cell(checked.detail));
    }
    if (checked.computed_bytes && !measured.known.empty()) {
      known += fmt::format("| {} | {} | {} |\n", measured.id, error_text(error_of(checked)),
                           in_cell(measured.known));
    }
    if (!checked.computed_bytes) {
      not_modelled += fmt::format("| {} | {} | {} |\n", measured.id, in_cell(measured.value_text),
                                  in_cell(measured.not_modelled));
    }
  }
  std::string text;
  if (!allocations.empty()) {
    text +=
        "\n## Failed allocations, and what they were\n\n| case | nearest allocation "
        "|\n|---|---|\n" +
        allocations;
  }
  if (!known.empty()) {
    text += "\n## What is known about them\n\n| case | error | |\n|---|---|---|\n" + known;
  }
  if (!not_modelled.empty()) {
    text += "\n## Not modelled, and not counted\n\n| case | published | why |\n|---|---|---|\n" +
            not_modelled;
  }
  return text;
}

}  // namespace

std::string check_markdown(const CheckAnswer& answer) {
  return std::string(kHead) + groups_table(answer) + bounds_table(answer) + cases_table(answer) +
         remarks(answer);
}

}  // namespace cairn
