#include <fmt/format.h>

#include "cli/check.h"
#include "cli/table.h"
#include "cli/text.h"
#include "cli/units.h"

// The text of `cairn check`.

namespace cairn {
namespace {

constexpr std::size_t kNarrowestId = 20;

std::string cases_text(const CheckAnswer& answer) {
  Table table{.columns = {{.header = "case", .narrowest = kNarrowestId},
                          {"metric"},
                          {"published", Align::kRight},
                          {"computed", Align::kRight},
                          {"error", Align::kRight}}};
  for (const CheckedCase& checked : answer.cases) {
    if (!checked.computed_bytes) continue;
    table.rows.push_back({checked.measured.id, std::string(metric_name(checked.measured.metric)),
                          bytes_text(checked.measured.value_bytes),
                          bytes_text(*checked.computed_bytes), error_text(error_of(checked))});
  }
  return table.rows.empty() ? "" : table_text(table);
}

std::string groups_text(const CheckAnswer& answer) {
  Table table{.columns = {{"metric"},
                          {"confidence", Align::kRight},
                          {"cases", Align::kRight},
                          {"median", Align::kRight},
                          {"90th", Align::kRight},
                          {"worst", Align::kRight},
                          {"which"}}};
  for (const ErrorGroup& group : answer.groups) {
    const ErrorStatistics& statistics = group.statistics;
    table.rows.push_back({group.metric, std::to_string(group.confidence),
                          std::to_string(statistics.count), magnitude_text(statistics.median),
                          magnitude_text(statistics.percentile_90),
                          magnitude_text(statistics.worst), statistics.worst_id});
  }
  return table.rows.empty() ? "" : "\n" + table_text(table);
}

void add_limit(const CheckedBound& checked, const char* statistic, double found,
               const std::optional<double>& limit, Table& table) {
  if (!limit) return;
  table.rows.push_back({bound_scope(checked.bound), std::to_string(checked.statistics.count),
                        statistic, magnitude_text(found), magnitude_text(*limit),
                        found <= *limit ? "met" : "not met"});
}

std::string bounds_text(const CheckAnswer& answer) {
  Table table{.columns = {{.header = "bound over", .narrowest = kNarrowestId},
                          {"cases", Align::kRight},
                          {"of"},
                          {"found", Align::kRight},
                          {"at most", Align::kRight},
                          {""}}};
  for (const CheckedBound& checked : answer.bounds) {
    const ErrorStatistics& statistics = checked.statistics;
    add_limit(checked, "median", statistics.median, checked.bound.median, table);
    add_limit(checked, "90th", statistics.percentile_90, checked.bound.percentile_90, table);
    add_limit(checked, "worst", statistics.worst, checked.bound.worst, table);
  }
  return table.rows.empty() ? "" : "\n" + table_text(table);
}

std::string details_text(const CheckAnswer& answer) {
  std::string allocations;
  std::string misses;
  std::string not_modelled;
  for (const CheckedCase& checked : answer.cases) {
    const MeasuredCase& measured = checked.measured;
    const std::string label = measured.id + ": ";
    if (!checked.detail.empty()) allocations += labelled_text(label, checked.detail);
    if (checked.computed_bytes && !measured.known.empty()) {
      misses += labelled_text(label, measured.known);
    }
    if (!checked.computed_bytes) not_modelled += labelled_text(label, measured.not_modelled);
  }
  std::string text;
  if (!allocations.empty()) text += "\nThe nearest allocation\n" + allocations;
  if (!misses.empty()) text += "\nWhat is known\n" + misses;
  if (!not_modelled.empty()) text += "\nNot modelled, and not counted\n" + not_modelled;
  return text;
}

}  // namespace

std::string check_text(const CheckAnswer& answer) {
  const std::string text =
      cases_text(answer) + groups_text(answer) + details_text(answer) + bounds_text(answer);
  return text.starts_with('\n') ? text.substr(1) : text;
}

}  // namespace cairn
