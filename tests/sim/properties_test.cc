#include <doctest/doctest.h>

#include <string>

#include "graph/error.h"
#include "graph/schedule.h"
#include "sim/simulator.h"
#include "sim/validator.h"
#include "tests/seed.h"
#include "tests/sim/random_graph.h"
#include "tests/sim/text_schedule.h"

namespace cairn {
namespace {

constexpr Extent kExtents[] = {Extent::kNeeded, Extent::kPrefix, Extent::kWhole};
constexpr int kGraphCount = 1000;

TEST_CASE("lowering and simulator agree with the validator on random graphs and plans") {
  INFO("--seed=", test_seed());
  Random random(test_seed());
  for (int i = 0; i < kGraphCount; ++i) {
    const Graph graph = random_graph(random);
    for (const Extent extent : kExtents) {
      const Plan plan = random_plan(graph, extent, random);
      const Schedule schedule = lower(graph, plan);
      const ValidationResult result = validate(graph, plan, schedule);
      const Trace trace = simulate(graph, plan, schedule);
      const bool agree = result.fault == Fault::kNone && result.peak_bytes == trace.peak_bytes &&
                         result.peak_step == trace.steps[trace.peak_entry].step;
      if (agree) continue;
      INFO("graph ", i, ": ", result.message, "\n", graph_text(graph), plan_text(graph, plan),
           schedule_text(graph, schedule));
      CHECK(result.fault == Fault::kNone);
      CHECK(result.peak_bytes == trace.peak_bytes);
      REQUIRE(result.peak_step == trace.steps[trace.peak_entry].step);
    }
  }
}

bool lowers(const Graph& graph, const Plan& plan) {
  try {
    lower(graph, plan);
    return true;
  } catch (const InputError&) {
    return false;
  }
}

TEST_CASE("lowering refuses exactly the keep lists that the validator finds useless") {
  INFO("--seed=", test_seed());
  Random random(test_seed());
  int useless_count = 0;
  for (int i = 0; i < kGraphCount; ++i) {
    const Graph graph = random_graph(random);
    Plan plan = random_plan(graph, kExtents[pick(random, 3)], random);
    for (Region& region : plan.regions) {
      const Op& op = graph.op(plan.order[static_cast<std::size_t>(region.begin)]);
      region.keep = {op.outputs[pick(random, op.outputs.size())]};
    }
    const bool is_useless = validate(graph, plan, {}).fault == Fault::kUselessKeep;
    useless_count += is_useless ? 1 : 0;
    INFO("graph ", i, ":\n", graph_text(graph), plan_text(graph, plan));
    REQUIRE(lowers(graph, plan) == !is_useless);
  }
  CHECK(useless_count > 0);
}

}  // namespace
}  // namespace cairn
