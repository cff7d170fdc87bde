// Head and loss of Gemma 2 (2B) on 8,192 tokens, against Apple's measurement on an A100 (README of
// apple/ml-cross-entropy, "loss-fw-bw"): docs/accounting.md, "Losses".

#include <doctest/doctest.h>

#include <algorithm>

#include "graph/plan.h"
#include "graph/schedule.h"
#include "models/load_model.h"
#include "sim/simulator.h"

namespace cairn {
namespace {

// The most bytes that the steps behind the last norm's add to what is there after it.
std::int64_t bytes_of_loss(const std::string& loss) {
  const LoadedModel model = load_model({.model = "gemma-2-2b",
                                        .tokens = 8192,
                                        .set = {{"layers", "1"}},
                                        .implementations = {{"loss", loss}}});
  const Plan plan = keep_all_plan(model.graph);
  const Schedule schedule = lower(model.graph, plan);
  const Trace trace = simulate(model.graph, plan, schedule);
  std::int64_t before = 0;
  std::int64_t most = 0;
  for (const StepTrace& step : trace.steps) {
    const Step& at = schedule.steps[step.step];
    const std::string& name = model.graph.op(at.op).name;
    if (name == "norm" && at.kind == StepKind::kCompute) before = step.after_bytes;
    if (name.starts_with("logits") || name.starts_with("loss")) {
      most = std::max(most, step.during_bytes - before);
    }
  }
  return most;
}

double mib(std::int64_t bytes) { return static_cast<double>(bytes) / (1 << 20); }

TEST_CASE("Gemma 2's logits and loss take the 28,000 MiB that were measured") {
  // 14 bytes a logit: the softcap's tanh 2, and in the log-softmax's Backward three in fp32.
  CHECK(bytes_of_loss("hf") == std::int64_t{8192} * 256000 * 14);
  CHECK(mib(bytes_of_loss("hf")) == doctest::Approx(28000.0));
}

TEST_CASE("cut cross-entropy takes the 1,164.0 MiB that were measured") {
  // Gradients 2 * 2304 * (256,000 + 8,192); mean, order and locks of classes 12 * 256,000.
  CHECK(mib(bytes_of_loss("cut")) == doctest::Approx(1164.0).epsilon(0.0001));
}

}  // namespace
}  // namespace cairn
