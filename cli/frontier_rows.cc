#include "cli/frontier_rows.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

namespace cairn {
namespace {

// Distance of two points in a plot that is as wide as it is high.
class Plot {
 public:
  explicit Plot(const std::vector<FrontierPoint>& points)
      : peak_range_(std::max<double>(
            1, static_cast<double>(points.front().peak_bytes - points.back().peak_bytes))),
        cost_range_(std::max<double>(
            1, static_cast<double>(points.back().extra_cost - points.front().extra_cost))) {}

  double distance(const FrontierPoint& a, const FrontierPoint& b) const {
    return std::hypot(static_cast<double>(a.peak_bytes - b.peak_bytes) / peak_range_,
                      static_cast<double>(a.extra_cost - b.extra_cost) / cost_range_);
  }

 private:
  double peak_range_ = 1;
  double cost_range_ = 1;
};

}  // namespace

std::vector<std::size_t> shown_points(const Frontier& frontier, std::size_t most_rows) {
  const std::vector<FrontierPoint>& points = frontier.points;
  std::vector<bool> is_shown(points.size(), points.size() <= most_rows);
  std::size_t count = 0;
  // The farthest from all that are shown, until there are enough.
  const Plot plot(points);
  std::vector<double> nearest(points.size(), std::numeric_limits<double>::infinity());
  const auto show = [&](std::size_t point) {
    if (is_shown[point]) return;
    is_shown[point] = true;
    ++count;
    for (std::size_t i = 0; i < points.size(); ++i) {
      nearest[i] = std::min(nearest[i], plot.distance(points[i], points[point]));
    }
  };
  for (const std::size_t point : {std::size_t{0}, points.size() - 1, frontier.knee}) show(point);
  while (points.size() > most_rows && count < most_rows) {
    const auto farthest = std::max_element(nearest.begin(), nearest.end());
    if (*farthest <= 0) break;  // the rest are the same
    show(static_cast<std::size_t>(farthest - nearest.begin()));
  }
  std::vector<std::size_t> shown;
  for (std::size_t i = 0; i < points.size(); ++i) {
    if (is_shown[i]) shown.push_back(i);
  }
  return shown;
}

double marginal_price(const FrontierPoint& larger, const FrontierPoint& smaller) {
  const std::int64_t bytes = larger.peak_bytes - smaller.peak_bytes;
  if (bytes <= 0) return 0;
  return static_cast<double>(smaller.extra_cost - larger.extra_cost) / static_cast<double>(bytes);
}

std::int64_t price_unit_bytes(const Frontier& frontier) {
  constexpr std::int64_t kKiB = 1024;
  constexpr std::int64_t kMiB = kKiB * kKiB;
  const std::int64_t range = frontier.points.front().peak_bytes - frontier.points.back().peak_bytes;
  constexpr std::int64_t kGiB = kKiB * kMiB;
  for (const std::int64_t unit : {100 * kGiB, 10 * kGiB}) {
    if (20 * unit <= range) return unit;
  }
  for (const std::int64_t unit : std::array<std::int64_t, 8>{
           kKiB * kMiB, 100 * kMiB, 10 * kMiB, kMiB, 100 * kKiB, 10 * kKiB, kKiB, 100}) {
    if (unit <= range) return unit;
  }
  return 1;
}

}  // namespace cairn
