#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <tuple>
#include <vector>

#include "graph/schedule.h"
#include "sim/validator.h"
#include "tests/seed.h"
#include "tests/sim/random_graph.h"
#include "tests/sim/text_schedule.h"

// A validator that accepts everything would pass every other test. This one breaks good schedules
// in one place and wants each of them refused.

namespace cairn {
namespace {

constexpr int kScheduleCount = 50;
constexpr int kRandomPlaces = 4;
constexpr Extent kExtents[] = {Extent::kNeeded, Extent::kPrefix, Extent::kWhole};

using Steps = std::vector<Step>;

std::ptrdiff_t at(std::size_t place) { return static_cast<std::ptrdiff_t>(place); }

// The step at `from` stands at `to` instead.
Steps moved(Steps steps, std::size_t from, std::size_t to) {
  const Step step = steps[from];
  steps.erase(steps.begin() + at(from));
  steps.insert(steps.begin() + at(to), step);
  return steps;
}

Steps inserted(Steps steps, const Step& step, std::size_t place) {
  steps.insert(steps.begin() + at(place), step);
  return steps;
}

std::vector<Steps> mutants_of(const Steps& steps, Random& random) {
  std::vector<Steps> mutants;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    mutants.push_back(steps);
    mutants.back().erase(mutants.back().begin() + at(i));
    mutants.push_back(inserted(steps, steps[i], i));
    if (i > 0) mutants.push_back(moved(steps, i, i - 1));
    if (i + 1 < steps.size()) mutants.push_back(moved(steps, i, i + 1));
    for (int place = 0; place < kRandomPlaces; ++place) {
      mutants.push_back(inserted(steps, steps[i], pick(random, steps.size() + 1)));
      mutants.push_back(moved(steps, i, pick(random, steps.size())));
    }
  }
  return mutants;
}

// Frees that follow each other may stand in any order: here, by kind and tensor.
Steps with_sorted_frees(Steps steps) {
  const auto is_free = [](const Step& step) {
    return step.kind == StepKind::kFree || step.kind == StepKind::kFreeGradient;
  };
  for (auto first = steps.begin(); first != steps.end();) {
    const auto last = std::find_if_not(first, steps.end(), is_free);
    std::sort(first, last, [](const Step& a, const Step& b) {
      return std::tie(a.kind, a.tensor) < std::tie(b.kind, b.tensor);
    });
    first = last == steps.end() ? last : last + 1;
  }
  return steps;
}

TEST_CASE("every broken schedule is refused") {
  INFO("--seed=", test_seed());
  Random random(test_seed());
  std::size_t caught_count = 0;
  std::size_t equal_count = 0;
  for (int i = 0; i < kScheduleCount; ++i) {
    const Graph graph = random_graph(random);
    const Plan plan = random_plan(graph, kExtents[static_cast<std::size_t>(i) % 3], random);
    const Schedule schedule = lower(graph, plan);
    const Steps original = with_sorted_frees(schedule.steps);
    const ValidationResult accepted = validate(graph, plan, schedule);
    REQUIRE_MESSAGE(accepted.fault == Fault::kNone, accepted.message);
    for (const Steps& mutant : mutants_of(schedule.steps, random)) {
      const ValidationResult result = validate(graph, plan, {.steps = mutant});
      const bool is_equal = with_sorted_frees(mutant) == original;
      if (is_equal == (result.fault == Fault::kNone)) {
        ++(is_equal ? equal_count : caught_count);
        continue;
      }
      INFO("schedule ", i, ": ", result.message, "\n", graph_text(graph), plan_text(graph, plan),
           schedule_text(graph, schedule), "\n", schedule_text(graph, {.steps = mutant}));
      REQUIRE(is_equal == (result.fault == Fault::kNone));
    }
  }
  MESSAGE("mutants caught: ", caught_count, "; equal to the original: ", equal_count);
  CHECK(caught_count > 0);
}

TEST_CASE("every broken training step is refused") {
  INFO("--seed=", test_seed());
  Random random(test_seed());
  std::size_t caught_count = 0;
  for (int i = 0; i < kScheduleCount; ++i) {
    const TrainingStep step = random_training_step(random);
    const Graph graph = with_main_gradients(random_graph(random), step);
    const Plan plan = random_plan(graph, kExtents[static_cast<std::size_t>(i) % 3], random);
    const Schedule schedule = lower_training_step(graph, step, lower(graph, plan));
    const Steps original = with_sorted_frees(schedule.steps);
    const ValidationResult accepted = validate_training_step(graph, plan, step, schedule);
    REQUIRE_MESSAGE(accepted.fault == Fault::kNone, accepted.message);
    for (const Steps& mutant : mutants_of(schedule.steps, random)) {
      Schedule broken = schedule;
      broken.steps = mutant;
      const ValidationResult result = validate_training_step(graph, plan, step, broken);
      const bool is_equal = with_sorted_frees(mutant) == original;
      caught_count += is_equal ? 0 : 1;
      INFO("schedule ", i, ": ", result.message, "\n", graph_text(graph), plan_text(graph, plan),
           schedule_text(graph, schedule), "\n", schedule_text(graph, broken));
      REQUIRE(is_equal == (result.fault == Fault::kNone));
    }
  }
  MESSAGE("mutants caught: ", caught_count);
  CHECK(caught_count > 0);
}

}  // namespace
}  // namespace cairn
