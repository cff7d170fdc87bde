#include "tests/sim/timeline.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "graph/schedule.h"
#include "sim/simulator.h"
#include "sim/validator.h"

namespace cairn::test {
namespace {

struct Replayed {
  Schedule schedule = {};
  Trace trace = {};
};

Replayed replay(const Graph& graph, const Plan& plan) {
  Replayed result{.schedule = lower(graph, plan)};
  result.trace = simulate(graph, plan, result.schedule);
  const ValidationResult verdict = validate(graph, plan, result.schedule);
  CHECK_MESSAGE(verdict.fault == Fault::kNone, verdict.message);
  CHECK(verdict.peak_bytes == result.trace.peak_bytes);
  CHECK(verdict.peak_step == result.trace.steps[result.trace.peak_entry].step);
  return result;
}

std::string text_from(const Graph& graph, const Replayed& replayed, StepKind first_kind) {
  std::string text;
  bool started = false;
  for (const StepTrace& step : replayed.trace.steps) {
    const Step& what = replayed.schedule.steps[step.step];
    started = started || what.kind == first_kind;
    if (!started) continue;
    text += fmt::format("{}{} {}/{}", text.empty() ? "" : ", ", step_text(graph, what),
                        step.during_bytes, step.after_bytes);
  }
  return text;
}

}  // namespace

std::string timeline(const Graph& graph, const Plan& plan) {
  return text_from(graph, replay(graph, plan), StepKind::kCompute);
}

std::string backward_timeline(const Graph& graph, const Plan& plan) {
  return text_from(graph, replay(graph, plan), StepKind::kBackward);
}

std::string peak_and_extra(const Graph& graph, const Plan& plan) {
  const Replayed replayed = replay(graph, plan);
  const std::size_t peak_step = replayed.trace.steps[replayed.trace.peak_entry].step;
  std::int64_t extra_ns = 0;
  for (const Step& step : replayed.schedule.steps) {
    if (step.kind == StepKind::kRecompute) {
      extra_ns += graph.op(step.op).forward.time_ns.value_or(0);
    }
  }
  return fmt::format("{} at {}, extra {}", replayed.trace.peak_bytes,
                     step_text(graph, replayed.schedule.steps[peak_step]), extra_ns);
}

}  // namespace cairn::test
