#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>
#include <vector>

#include "cli/plan_report.h"
#include "cli/units.h"

// The frontier as a drawing: peak to the right, cost upwards, a step for each plan.

namespace cairn {
namespace {

constexpr double kWidth = 640;
constexpr double kHeight = 340;
constexpr double kLeft = 70;
constexpr double kTop = 40;
constexpr double kBelow = 48;
constexpr double kRight = 24;
constexpr double kLabelRoom = 40;

// A round distance of axis marks, so that there are at most `most_marks` over `range`: 1, 2 or 5
// times a power of ten
double mark_distance(double range, int most_marks) {
  for (double power = 0.001;; power *= 10) {
    for (const double factor : {1.0, 2.0, 5.0}) {
      if (range / (power * factor) <= most_marks) return power * factor;
    }
  }
}

struct Axis {
  double low = 0;
  double high = 1;
  double length = 1;
  double place(double value) const { return (value - low) / (high - low) * length; }
};

std::string escaped(std::string_view text) {
  std::string safe;
  for (const char c : text) {
    if (c == '<') {
      safe += "&lt;";
    } else if (c == '>') {
      safe += "&gt;";
    } else if (c == '&') {
      safe += "&amp;";
    } else {
      safe += c;
    }
  }
  return safe;
}

class Drawing {
 public:
  explicit Drawing(const PlanReport& report) : report_(report), frontier_(*report.frontier) {
    const auto least = static_cast<double>(frontier_.points.back().peak_bytes);
    const auto most = static_cast<double>(frontier_.points.front().peak_bytes);
    const double margin = std::max((most - least) * 0.05, 1.0);
    bytes_ = {.low = std::max(0.0, least - margin), .high = most + margin, .length = kWidth};
    double highest = 0;
    for (const FrontierPoint& point : frontier_.points) highest = std::max(highest, cost_of(point));
    costs_ = {.high = highest > 0 ? highest * 1.08 : 1, .length = kHeight};
  }

  std::string text() {
    svg_ = fmt::format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {:.0f} {:.0f}\">\n"
        "<style>text{{font:11px sans-serif;fill:#333}}.title{{font-size:13px}}"
        ".cost{{text-anchor:end}}.peak,.unit{{text-anchor:middle}}"
        ".frame{{fill:none;stroke:#888}}.grid{{stroke:#ddd;fill:none}}"
        ".curve{{fill:none;stroke:#1d4ed8;stroke-width:1.2}}.point{{fill:#1d4ed8}}"
        ".knee{{fill:#c2410c}}.budget{{stroke:#555;stroke-dasharray:4 3}}</style>\n"
        "<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n"
        "<text x=\"{:.0f}\" y=\"22\" class=\"title\">{}: peak of a training step and what "
        "recomputing costs</text>\n"
        "<g transform=\"translate({:.0f},{:.0f})\">\n",
        kLeft + kWidth + kRight, kTop + kHeight + kBelow, kLeft, escaped(report_.model.name), kLeft,
        kTop);
    add_bytes_axis();
    add_cost_axis();
    svg_ += fmt::format("<rect width=\"{:.0f}\" height=\"{:.0f}\" class=\"frame\"/>\n", kWidth,
                        kHeight);
    add_budget();
    add_curve();
    add_points();
    return std::move(svg_) + "</g>\n</svg>\n";
  }

 private:
  // Percent of a step, or recomputes.
  double cost_of(const FrontierPoint& point) const {
    return report_.unit == CostUnit::kRecomputes ? static_cast<double>(point.extra_cost)
                                                 : 100 * cost_share(report_, point.extra_cost);
  }

  double x(const FrontierPoint& point) const {
    return bytes_.place(static_cast<double>(point.peak_bytes));
  }
  double y(const FrontierPoint& point) const { return kHeight - costs_.place(cost_of(point)); }

  void add_bytes_axis() {
    const std::array<std::pair<double, const char*>, 4> units = {
        {{double{1 << 30}, "GiB"}, {double{1 << 20}, "MiB"}, {1024, "KiB"}, {1, "B"}}};
    const double range = bytes_.high - bytes_.low;
    const auto& [unit, name] = *std::find_if(units.begin(), units.end(), [&](const auto& entry) {
      return range >= entry.first || entry.first == 1;
    });
    const double distance = mark_distance(range / unit, 8);
    for (double mark = std::ceil(bytes_.low / unit / distance) * distance;
         mark * unit <= bytes_.high; mark += distance) {
      const double at = bytes_.place(mark * unit);
      svg_ += fmt::format(
          "<path d=\"M{0:.1f} 0V{1:.0f}\" class=\"grid\"/>"
          "<text x=\"{0:.1f}\" y=\"{2:.0f}\" class=\"peak\">{3:.4g}</text>\n",
          at, kHeight, kHeight + 16, mark);
    }
    svg_ += fmt::format("<text x=\"{:.0f}\" y=\"{:.0f}\" class=\"unit\">peak, {}</text>\n",
                        kWidth / 2, kHeight + 36, name);
  }

  void add_cost_axis() {
    const double distance = mark_distance(costs_.high, 7);
    for (int i = 0; i * distance <= costs_.high; ++i) {
      const double at = kHeight - costs_.place(i * distance);
      svg_ += fmt::format(
          "<path d=\"M0 {0:.1f}H{1:.0f}\" class=\"grid\"/>"
          "<text x=\"-6\" y=\"{2:.1f}\" class=\"cost\">{3:.4g}</text>\n",
          at, kWidth, at + 4, i * distance);
    }
    const std::string what = report_.unit == CostUnit::kRecomputes
                                 ? "ops recomputed"
                                 : fmt::format("extra {}, %", cost_noun(report_.unit));
    svg_ += fmt::format(
        "<text transform=\"translate(-48,{:.0f}) rotate(-90)\" class=\"unit\">{}</text>\n",
        kHeight / 2, what);
  }

  void add_budget() {
    const auto budget = static_cast<double>(report_.budget_bytes);
    if (!report_.budget || budget < bytes_.low || budget > bytes_.high) return;
    svg_ += fmt::format(
        "<path d=\"M{0:.1f} 0V{1:.0f}\" class=\"budget\"/>"
        "<text x=\"{2:.1f}\" y=\"14\">budget</text>\n",
        bytes_.place(budget), kHeight, bytes_.place(budget) + 5);
  }

  // With less than a plan's peak, the next one costs what it costs: a stair.
  void add_curve() {
    std::string path;
    for (const FrontierPoint& point : frontier_.points) {
      path += path.empty() ? fmt::format("M{:.1f} {:.1f}", kWidth, y(point))
                           : fmt::format("V{:.1f}", y(point));
      path += fmt::format("H{:.1f}", x(point));
    }
    svg_ += fmt::format("<path d=\"{}\" class=\"curve\"/>\n", path);
  }

  void add_points() {
    for (std::size_t i = 0; i < frontier_.points.size(); ++i) {
      const FrontierPoint& point = frontier_.points[i];
      const bool is_knee = i == frontier_.knee;
      svg_ += fmt::format(
          "<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"{}\" class=\"{}\"><title>{}, {}</title>"
          "</circle>\n",
          x(point), y(point), is_knee ? "4" : "2", is_knee ? "knee" : "point",
          bytes_text(point.peak_bytes), cost_text(report_, point.extra_cost));
    }
    const FrontierPoint& knee = frontier_.points[frontier_.knee];
    const bool is_at_edge = x(knee) + kLabelRoom > kWidth;
    svg_ += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\"{}>knee</text>\n",
                        x(knee) + (is_at_edge ? -7 : 7), y(knee) - 7,
                        is_at_edge ? " class=\"cost\"" : "");
  }

  const PlanReport& report_;
  const Frontier& frontier_;
  Axis bytes_ = {};
  Axis costs_ = {};
  std::string svg_ = {};
};

}  // namespace

std::string frontier_svg(const PlanReport& report) { return Drawing(report).text(); }

}  // namespace cairn
