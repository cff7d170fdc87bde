// What must hold of every planning algorithm, whatever it is.

#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "graph/error.h"
#include "graph/schedule.h"
#include "models/load_model.h"
#include "planner/candidates.h"
#include "planner/plan_for_budget.h"
#include "sim/simulator.h"
#include "sim/validator.h"
#include "tests/planner/random_chain.h"
#include "tests/seed.h"

namespace cairn {
namespace {

constexpr Extent kExtents[] = {Extent::kNeeded, Extent::kPrefix, Extent::kWhole};

// "uniform:K" as uniform:2.
std::vector<Strategy> all_algorithms() {
  std::vector<Strategy> algorithms;
  for (const std::string& name : algorithm_names()) {
    algorithms.push_back(parse_algorithm(name.ends_with(":K") ? "uniform:2" : name));
  }
  return algorithms;
}

PlanRequest request_of(const Strategy& strategy, Extent extent) {
  return {.strategy = strategy, .setting = {.extent = extent}};
}

enum class Kind { kChain, kAny };

// Whether the graph does not allow the algorithm: a chain of blocks allows all.
bool is_refused(const Graph& graph, const PlanRequest& request, Kind kind) {
  if (kind == Kind::kChain) return false;
  try {
    plan_for_budget(graph, request, INT64_MAX);
    return false;
  } catch (const InputError&) {
    return true;
  }
}

// Peaks of the plans, each checked, lowered, replayed and validated.
std::vector<std::int64_t> checked_peaks(const Graph& graph, const std::vector<Plan>& plans) {
  std::vector<std::int64_t> peaks;
  for (const Plan& plan : plans) {
    REQUIRE_NOTHROW(check_plan(graph, plan));
    const Schedule schedule = lower(graph, plan);
    const ValidationResult verdict = validate(graph, plan, schedule);
    REQUIRE_MESSAGE(verdict.fault == Fault::kNone, verdict.message);
    peaks.push_back(simulate(graph, plan, schedule).peak_bytes);
    REQUIRE(verdict.peak_bytes == peaks.back());
  }
  return peaks;
}

bool are_same(const std::vector<Plan>& a, const std::vector<Plan>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), is_same_plan);
}

// An answer is within its budget, or none of the algorithm's plans is. Those of a candidate list
// are `peaks`; all algorithms answer with the least peak they find where nothing fits.
void check_answer(const PlanAnswer& answer, const std::vector<std::int64_t>& peaks,
                  std::int64_t budget_bytes) {
  CAPTURE(budget_bytes);
  const std::int64_t peak_bytes = answer.evaluation.trace.peak_bytes;
  REQUIRE(answer.is_feasible == (peak_bytes <= budget_bytes));
  REQUIRE(answer.extra_cost == extra_cost(answer.evaluation, answer.unit));
  if (answer.is_feasible) return;
  for (const std::int64_t candidate_bytes : peaks) REQUIRE(peak_bytes <= candidate_bytes);
}

// Budgets around what the plans need, and extremes.
std::vector<std::int64_t> budgets_of(std::int64_t least_bytes, std::int64_t keep_all_bytes) {
  const std::int64_t middle_bytes = least_bytes + (keep_all_bytes - least_bytes) / 2;
  return {least_bytes - 1, least_bytes, middle_bytes, keep_all_bytes, INT64_MAX};
}

// The least peak it finds is feasible, and more budget costs no more.
void check_budgets(const Graph& graph, const PlanRequest& request,
                   const std::vector<std::int64_t>& peaks) {
  const PlanAnswer smallest = plan_for_budget(graph, request, 0);
  check_answer(smallest, peaks, 0);
  const std::int64_t least_bytes = smallest.evaluation.trace.peak_bytes;
  const std::int64_t keep_all_bytes = checked_peaks(graph, {keep_all_plan(graph)})[0];
  std::int64_t last_cost = INT64_MAX;
  for (const std::int64_t budget_bytes : budgets_of(least_bytes, keep_all_bytes)) {
    const PlanAnswer answer = plan_for_budget(graph, request, budget_bytes);
    check_answer(answer, peaks, budget_bytes);
    checked_peaks(graph, {answer.evaluation.plan});
    REQUIRE(answer.evaluation.plan.extent == request.setting.extent);
    const PlanAnswer again = plan_for_budget(graph, request, budget_bytes);
    REQUIRE(is_same_plan(answer.evaluation.plan, again.evaluation.plan));
    REQUIRE(answer.extra_cost == again.extra_cost);
    if (budget_bytes < least_bytes) continue;
    REQUIRE(answer.is_feasible);
    REQUIRE(answer.extra_cost <= last_cost);
    last_cost = answer.extra_cost;
  }
}

void check_algorithm(const Graph& graph, const PlanRequest& request, Kind kind) {
  CAPTURE(graph.name);
  CAPTURE(strategy_name(request.strategy));
  if (is_refused(graph, request, kind)) return;
  const std::vector<Plan> plans = candidate_plans(graph, request);
  REQUIRE(are_same(plans, candidate_plans(graph, request)));
  for (const Plan& plan : plans) REQUIRE(plan.extent == request.setting.extent);
  check_budgets(graph, request, checked_peaks(graph, plans));
}

void check_frontier(const Graph& graph, const PlanRequest& request, Kind kind) {
  CAPTURE(graph.name);
  CAPTURE(strategy_name(request.strategy));
  if (is_refused(graph, request, kind)) return;
  const Frontier frontier = plan_frontier(graph, request);
  REQUIRE(!frontier.points.empty());
  REQUIRE(frontier.knee < frontier.points.size());
  for (std::size_t i = 0; i < frontier.points.size(); ++i) {
    const FrontierPoint& point = frontier.points[i];
    REQUIRE(checked_peaks(graph, {point.plan}) == std::vector<std::int64_t>{point.peak_bytes});
    if (i == 0) continue;
    REQUIRE(point.peak_bytes < frontier.points[i - 1].peak_bytes);
    REQUIRE(point.extra_cost > frontier.points[i - 1].extra_cost);
  }
}

void check_all(const Graph& graph, Kind kind) {
  for (const Strategy& strategy : all_algorithms()) {
    for (const Extent extent : kExtents) {
      check_algorithm(graph, request_of(strategy, extent), kind);
    }
    check_frontier(graph, request_of(strategy, Extent::kNeeded), kind);
  }
}

std::vector<std::string> graph_files(const std::filesystem::path& folder) {
  std::vector<std::string> files;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    if (entry.path().extension() == ".yaml") files.push_back(entry.path().string());
  }
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace

TEST_CASE("every algorithm's plans are valid on random chains of blocks") {
  INFO("--seed=", test_seed());
  Random random(test_seed());
  for (int i = 0; i < 20; ++i) {
    CAPTURE(i);
    check_all(test::random_block_graph(1 + pick(random, 8), random), Kind::kChain);
  }
}

TEST_CASE("every algorithm's plans are valid on random layers that save input and output") {
  INFO("--seed=", test_seed());
  Random random(test_seed());
  for (int i = 0; i < 20; ++i) {
    CAPTURE(i);
    check_all(test::chain_graph(test::random_layer_chain(1 + pick(random, 12), random)),
              Kind::kChain);
  }
}

TEST_CASE("every algorithm's plans are valid on graphs that are no chains") {
  INFO("--seed=", test_seed());
  Random random(test_seed());
  for (int i = 0; i < 20; ++i) {
    CAPTURE(i);
    check_all(random_graph(random), Kind::kAny);
  }
}

TEST_CASE("every algorithm's plans are valid on the sample graphs") {
  const std::filesystem::path root = CAIRN_SOURCE_DIR;
  std::vector<std::string> files = graph_files(root / "tests/models/graphs");
  CHECK(files.size() >= 4);
  for (const char* name : {"chain_of_4", "residual_pair", "unet_skip", "flash_attention",
                           "two_branches", "unequal_chain", "two_blocks"}) {
    files.push_back((root / "tests/cli/files" / name).string() + ".yaml");
  }
  for (const std::string& file : files) {
    CAPTURE(file);
    check_all(load_model({.model = file}).graph, Kind::kAny);
  }
}

TEST_CASE("ten thousand random chains: no plan is over its budget") {
  INFO("--seed=", test_seed());
  Random random(test_seed());
  const std::vector<Strategy> algorithms = all_algorithms();
  int feasible_count = 0;
  for (int i = 0; i < 10'000; ++i) {
    CAPTURE(i);
    const Graph graph = test::chain_graph(test::random_layer_chain(2 + pick(random, 5), random));
    const Strategy& strategy = algorithms[static_cast<std::size_t>(i) % algorithms.size()];
    const PlanRequest request = request_of(strategy, kExtents[pick(random, 3)]);
    CAPTURE(strategy_name(strategy));
    const auto budget_bytes = static_cast<std::int64_t>(pick(random, 160));
    const PlanAnswer answer = plan_for_budget(graph, request, budget_bytes);
    checked_peaks(graph, {answer.evaluation.plan});
    check_answer(answer, checked_peaks(graph, candidate_plans(graph, request)), budget_bytes);
    feasible_count += answer.is_feasible ? 1 : 0;
  }
  CHECK(feasible_count > 1000);
}

}  // namespace cairn
