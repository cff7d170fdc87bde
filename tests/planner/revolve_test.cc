// Binomial checkpointing against its closed form and the dynamic programme that it solves.

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "graph/schedule.h"
#include "planner/planner.h"
#include "tests/planner/equal_chain.h"

namespace cairn {
namespace {

std::int64_t binomial(std::int64_t n, std::int64_t k) {
  std::int64_t value = 1;
  for (std::int64_t i = 1; i <= k; ++i) value = value * (n - k + i) / i;
  return value;
}

// t(l, s) of Griewank & Walther: forward steps before those that are reversed at once.
std::int64_t advances(std::int64_t steps, std::int64_t snapshots) {
  std::int64_t repeats = 0;
  while (binomial(snapshots + repeats, snapshots) < steps) ++repeats;
  return repeats * steps - binomial(snapshots + repeats, snapshots + 1);
}

// The same by trying every place for the next snapshot.
std::vector<std::vector<std::int64_t>> least_advances(std::size_t most_steps,
                                                      std::size_t most_snapshots) {
  std::vector<std::vector<std::int64_t>> least(most_snapshots + 1,
                                               std::vector<std::int64_t>(most_steps + 1, 0));
  for (std::size_t s = 1; s <= most_snapshots; ++s) {
    for (std::size_t l = 2; l <= most_steps; ++l) {
      std::int64_t& best = least[s][l];
      best = static_cast<std::int64_t>(l * (l - 1) / 2);  // all from the first snapshot
      for (std::size_t j = 1; j < l && s > 1; ++j) {
        best = std::min(best, static_cast<std::int64_t>(j) + least[s][j] + least[s - 1][l - j]);
      }
    }
  }
  return least;
}

std::int64_t recompute_count(const Graph& graph, const Plan& plan) {
  const Schedule schedule = lower(graph, plan);
  return std::count_if(schedule.steps.begin(), schedule.steps.end(),
                       [](const Step& step) { return step.kind == StepKind::kRecompute; });
}

int depth_of(const std::vector<Region>& regions) {
  int depth = 0;
  for (const Region& region : regions) depth = std::max(depth, 1 + depth_of(region.inner));
  return depth;
}

std::string text_of(const std::vector<Region>& regions) {
  std::string text;
  for (const Region& region : regions) {
    text += fmt::format("({}-{}{})", region.begin, region.end - 1, text_of(region.inner));
  }
  return text;
}

// The layers and, as the last step, the loss.
std::vector<Plan> plans_of(std::int32_t step_count) {
  return revolve_plans(test::equal_chain(step_count - 1, test::EqualSaves::kAll), Extent::kNeeded);
}

}  // namespace

TEST_CASE("the closed form has the published counts, and is least") {
  CHECK(advances(48, 8) == 89);
  CHECK(advances(100, 10) == 222);
  CHECK(advances(339, 18) == 807);
  CHECK(advances(1000, 31) == 2439);
  const auto least = least_advances(60, 12);
  for (std::size_t s = 1; s <= 12; ++s) {
    for (std::size_t l = 2; l <= 60; ++l) {
      CHECK(advances(static_cast<std::int64_t>(l), static_cast<std::int64_t>(s)) == least[s][l]);
    }
  }
}

TEST_CASE("plans of equal layers recompute as many as the closed form advances") {
  // What forward computes is one run of each step, as the runs that are reversed at once are: so
  // the others are the advances, where every layer is made again before its Backward.
  for (std::int32_t l = 2; l <= 31; ++l) {
    const Graph graph = test::equal_chain(l - 1, test::EqualSaves::kAll);
    const std::vector<Plan> plans = revolve_plans(graph, Extent::kNeeded);
    REQUIRE(plans.size() == static_cast<std::size_t>(l));  // 1 to l - 1 snapshots, and none
    for (std::int32_t s = 1; s < l; ++s) {
      CAPTURE(l);
      CAPTURE(s);
      CHECK(recompute_count(graph, plans[static_cast<std::size_t>(s) - 1]) == advances(l, s));
    }
    CHECK(plans.back().regions.empty());
  }
}

TEST_CASE("a layer that saves its input alone is not made again where a region ends with it") {
  // Then the last steps of regions need no run: l - 1 advances of forward less.
  const Graph graph = test::equal_chain(23, test::EqualSaves::kInput);
  const std::vector<Plan> plans = revolve_plans(graph, Extent::kNeeded);
  for (std::int32_t s = 1; s < 24; ++s) {
    CHECK(recompute_count(graph, plans[static_cast<std::size_t>(s) - 1]) == advances(24, s) - 23);
  }
}

TEST_CASE("the verified counts come out of plans") {
  struct Expected {
    std::int32_t steps = 0;
    std::int64_t snapshots = 0;
    std::int64_t advances = 0;
  };
  for (const Expected& expected :
       {Expected{48, 8, 89}, Expected{100, 10, 222}, Expected{339, 18, 807}}) {
    const Graph graph = test::equal_chain(expected.steps - 1, test::EqualSaves::kAll);
    std::vector<std::int64_t> counts;
    for (const Plan& plan : revolve_plans(graph, Extent::kNeeded)) {
      counts.push_back(recompute_count(graph, plan));
    }
    CHECK(std::count(counts.begin(), counts.end(), expected.advances) == 1);
  }
}

TEST_CASE("five steps with two snapshots") {
  // Up to C(2 + 2, 2) = 6 steps take 2 repeats. The snapshot at 3 leaves 3 = C(2 + 1, 2) steps
  // before it for 1 repeat, and behind it 2 with one snapshot.
  const std::vector<Plan> plans = plans_of(5);
  CHECK(text_of(plans[1].regions) == "(0-2(0-0)(1-1))(3-3)");
  // With one snapshot all starts again from the first step.
  CHECK(text_of(plans[0].regions) == "(0-3(0-2(0-1(0-0))))");
  // With one for each.
  CHECK(text_of(plans[3].regions) == "(0-0)(1-1)(2-2)(3-3)");
}

TEST_CASE("a thousand equal layers: regions at most 30 deep, and not a plan for each number") {
  const Graph graph = test::equal_chain(999, test::EqualSaves::kAll);
  const std::vector<Plan> plans = revolve_plans(graph, Extent::kNeeded);
  CHECK(plans.size() > 50);
  CHECK(plans.size() < 100);
  for (const Plan& plan : plans) CHECK(depth_of(plan.regions) <= 30);
  // C(3 + 17, 3) = 1140 steps take 17 repeats; two snapshots would take 44.
  CHECK(recompute_count(graph, plans[0]) == advances(1000, 3));
  CHECK(depth_of(plans[0].regions) == 17);
}

TEST_CASE("no step, one step: nothing to recompute") {
  CHECK(revolve_plans(test::equal_chain(0, test::EqualSaves::kAll), Extent::kNeeded).size() == 1);
  CHECK(plans_of(2).size() == 2);
  CHECK(text_of(plans_of(2)[0].regions) == "(0-0)");
}

}  // namespace cairn
