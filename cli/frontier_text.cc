#include <fmt/format.h>

#include <algorithm>

#include "cli/frontier_rows.h"
#include "cli/plan_report.h"
#include "cli/table.h"
#include "cli/text.h"
#include "cli/units.h"

// The frontier for people: some twenty useful budgets, and what memory is worth between them.

namespace cairn {
namespace {

constexpr std::size_t kMostRows = 20;

// "1 GiB", "100 MiB": a round number of bytes.
std::string round_bytes_text(std::int64_t bytes) {
  std::int64_t number = bytes;
  const char* unit = "B";
  for (const char* larger : {"KiB", "MiB", "GiB"}) {
    if (number % 1024 != 0) break;
    number /= 1024;
    unit = larger;
  }
  return fmt::format("{} {}", number, unit);
}

// "4.1 %", "0.03 %", or so many recomputes.
std::string price_text(const PlanReport& report, double cost) {
  if (report.unit == CostUnit::kRecomputes) return fmt::format("{:.3g}", cost);
  if (report.step_cost == 0) return "-";
  const double percent = 100 * cost / static_cast<double>(report.step_cost);
  if (percent < 0.01) return "<0.01 %";
  return fmt::format("{:.{}f} %", percent, percent < 0.995 ? 2 : percent < 9.95 ? 1 : 0);
}

std::string mark_of(const PlanReport& report, std::size_t point) {
  const Frontier& frontier = *report.frontier;
  std::string mark = point == frontier.knee ? "knee" : "";
  if (!report.budget) return mark;
  const auto fits = [&](std::size_t at) {
    return frontier.points[at].peak_bytes <= report.budget_bytes;
  };
  if (fits(point) && (point == 0 || !fits(point - 1))) {
    mark += mark.empty() ? "budget" : ", budget";
  }
  return mark;
}

// The row that the budget buys is shown too.
std::vector<std::size_t> rows_of(const PlanReport& report) {
  const Frontier& frontier = *report.frontier;
  std::vector<std::size_t> rows = shown_points(frontier, kMostRows);
  for (std::size_t i = 0; i < frontier.points.size(); ++i) {
    if (!mark_of(report, i).ends_with("budget")) continue;
    if (std::find(rows.begin(), rows.end(), i) == rows.end()) rows.push_back(i);
  }
  std::sort(rows.begin(), rows.end());
  return rows;
}

}  // namespace

std::string frontier_text(const PlanReport& report) {
  const Frontier& frontier = *report.frontier;
  const std::int64_t unit_bytes = price_unit_bytes(frontier);
  const std::vector<std::size_t> rows = rows_of(report);
  const std::size_t count = frontier.points.size();
  std::string text = labelled_text(
      "", rows.size() == count
              ? fmt::format("{} useful budget{}", grouped_text(static_cast<std::int64_t>(count)),
                            count == 1 ? "" : "s")
              : fmt::format("{} useful budgets, {} of them here; --json and --csv have all",
                            grouped_text(static_cast<std::int64_t>(count)), rows.size()));
  Table table{
      .columns = {{"peak", Align::kRight},
                  {"extra\n" + cost_noun(report.unit), Align::kRight},
                  {fmt::format("{} more\nsaves", round_bytes_text(unit_bytes)), Align::kRight},
                  {"plan"},
                  {""}}};
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const FrontierPoint& point = frontier.points[rows[i]];
    const double price = i == 0 ? 0 : marginal_price(frontier.points[rows[i - 1]], point);
    table.rows.push_back(
        {bytes_text(point.peak_bytes),
         report.unit == CostUnit::kRecomputes ? grouped_text(point.extra_cost)
                                              : cost_text(report, point.extra_cost),
         i == 0 ? "-" : price_text(report, price * static_cast<double>(unit_bytes)),
         point.plan.algorithm, mark_of(report, rows[i])});
  }
  return text + table_text(table);
}

std::string frontier_csv(const PlanReport& report) {
  const Frontier& frontier = *report.frontier;
  std::string text =
      "peak_bytes,extra_cost,cost_unit,extra_share,saved_share_per_gib,is_knee,plan\n";
  for (std::size_t i = 0; i < frontier.points.size(); ++i) {
    const FrontierPoint& point = frontier.points[i];
    const double price =
        i == 0 ? 0 : marginal_price(frontier.points[i - 1], point) * double{1 << 30};
    const double step = static_cast<double>(std::max<std::int64_t>(report.step_cost, 1));
    text += fmt::format("{},{},{},{:.6g},{},{},{}\n", point.peak_bytes, point.extra_cost,
                        cost_unit_name(report.unit), cost_share(report, point.extra_cost),
                        i == 0 ? "" : fmt::format("{:.6g}", price / step),
                        i == frontier.knee ? 1 : 0, point.plan.algorithm);
  }
  return text;
}

}  // namespace cairn
