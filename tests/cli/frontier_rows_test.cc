#include "cli/frontier_rows.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <vector>

namespace cairn {
namespace {

constexpr std::int64_t kGiB = std::int64_t{1} << 30;

Frontier frontier(const std::vector<std::pair<std::int64_t, std::int64_t>>& peaks_and_costs,
                  std::size_t knee) {
  Frontier made{.knee = knee};
  for (const auto& [peak_bytes, cost] : peaks_and_costs) {
    made.points.push_back({.peak_bytes = peak_bytes, .extra_cost = cost});
  }
  return made;
}

TEST_CASE("the price of memory is what it saves a byte") {
  // 30 less for 10 bytes more.
  CHECK(marginal_price({.peak_bytes = 110, .extra_cost = 0},
                       {.peak_bytes = 100, .extra_cost = 30}) == doctest::Approx(3.0));
  CHECK(marginal_price({.peak_bytes = 100}, {.peak_bytes = 100, .extra_cost = 30}) == 0);
}

TEST_CASE("prices are quoted for a step of memory within the range") {
  CHECK(price_unit_bytes(frontier({{2005 * kGiB, 0}, {5 * kGiB, 7}}, 0)) == 100 * kGiB);
  CHECK(price_unit_bytes(frontier({{205 * kGiB, 0}, {5 * kGiB, 7}}, 0)) == 10 * kGiB);
  CHECK(price_unit_bytes(frontier({{204 * kGiB, 0}, {5 * kGiB, 7}}, 0)) == kGiB);
  CHECK(price_unit_bytes(frontier({{9 * kGiB, 0}, {5 * kGiB, 7}}, 0)) == kGiB);
  CHECK(price_unit_bytes(frontier({{kGiB, 0}, {kGiB - (200 << 20), 7}}, 0)) == 100 << 20);
  CHECK(price_unit_bytes(frontier({{kGiB, 0}, {kGiB - (9 << 20), 7}}, 0)) == 1 << 20);
  CHECK(price_unit_bytes(frontier({{40, 0}, {30, 7}}, 0)) == 1);
  CHECK(price_unit_bytes(frontier({{40, 0}}, 0)) == 1);
}

TEST_CASE("a short frontier is shown whole") {
  CHECK(shown_points(frontier({{40, 0}, {30, 7}, {20, 9}}, 1), 3) ==
        std::vector<std::size_t>{0, 1, 2});
  CHECK(shown_points(frontier({{40, 0}}, 0), 20) == std::vector<std::size_t>{0});
}

TEST_CASE("of a long one the ends, the knee and what spreads best") {
  std::vector<std::pair<std::int64_t, std::int64_t>> points;
  for (std::int64_t i = 0; i <= 100; ++i) points.emplace_back(1000 - i, i);
  const std::vector<std::size_t> shown = shown_points(frontier(points, 37), 5);
  // Behind 0, 100 and 37 the farthest is in the middle of 37 to 100, then of 0 to 37.
  CHECK(shown == std::vector<std::size_t>{0, 18, 37, 68, 100});
  CHECK(shown_points(frontier(points, 37), 20).size() == 20);
}

TEST_CASE("points that cost the same are no reason to loop") {
  std::vector<std::pair<std::int64_t, std::int64_t>> points(50, {100, 5});
  CHECK(shown_points(frontier(points, 3), 10).size() <= 10);
}

}  // namespace
}  // namespace cairn
