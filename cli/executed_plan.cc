#include "cli/executed_plan.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <utility>

#include "cli/step_names.h"
#include "executor/functors/elements.h"
#include "graph/error.h"
#include "graph/ops/op_kind.h"
#include "sim/simulator.h"

namespace cairn {
namespace {

std::size_t kind_place(StepKind kind) {
  switch (kind) {
    case StepKind::kCompute:
      return 0;
    case StepKind::kRecompute:
      return 1;
    case StepKind::kBackward:
      return 2;
    case StepKind::kOptimizerStep:
      return 3;
    case StepKind::kFree:
    case StepKind::kFreeGradient:
      break;
  }
  CAIRN_CHECK(false, "a Free is not measured");
}

std::optional<BytesDifference> first_difference(const Graph& graph, const Schedule& schedule,
                                                const std::vector<StepTrace>& simulated,
                                                const std::vector<MeasuredStep>& measured) {
  CAIRN_CHECK(simulated.size() == measured.size(), "the executor left out a step");
  for (std::size_t i = 0; i < simulated.size(); ++i) {
    const StepTrace& expected = simulated[i];
    const MeasuredStep& found = measured[i];
    if (expected.during_bytes == found.during_bytes && expected.after_bytes == found.after_bytes) {
      continue;
    }
    return BytesDifference{.place = step_place(graph, schedule, schedule.steps[expected.step]),
                           .simulated_during_bytes = expected.during_bytes,
                           .simulated_after_bytes = expected.after_bytes,
                           .measured_during_bytes = found.during_bytes,
                           .measured_after_bytes = found.after_bytes};
  }
  return std::nullopt;
}

std::int64_t peak_of(const std::vector<StepTrace>& steps) {
  std::int64_t peak_bytes = 0;
  for (const StepTrace& step : steps) peak_bytes = std::max(peak_bytes, step.during_bytes);
  return peak_bytes;
}

KindTimes times_by_kind(const Schedule& schedule, const std::vector<MeasuredStep>& steps) {
  KindTimes times = {};
  for (const MeasuredStep& measured : steps) {
    const Step& step = schedule.steps[measured.step];
    times[kind_place(step.kind)] += measured.time_ns * times_run(schedule, step);
  }
  return times;
}

std::vector<OpKindTime> times_by_op_kind(const Graph& graph, const Schedule& schedule,
                                         const std::vector<MeasuredStep>& steps) {
  std::map<std::string_view, OpKindTime> times;
  for (const MeasuredStep& measured : steps) {
    const Step& step = schedule.steps[measured.step];
    if (step.op == kNoOp) continue;
    OpKindTime& time = times[graph.op(step.op).kind->name];
    std::int64_t& total_ns = step.kind == StepKind::kCompute     ? time.forward_ns
                             : step.kind == StepKind::kRecompute ? time.recompute_ns
                                                                 : time.backward_ns;
    total_ns += measured.time_ns * times_run(schedule, step);
  }
  std::vector<OpKindTime> sorted;
  for (auto& [op_kind, time] : times) {
    time.op_kind = op_kind;
    sorted.push_back(time);
  }
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const OpKindTime& a, const OpKindTime& b) { return all_ns(a) > all_ns(b); });
  return sorted;
}

void add_times(const Graph& graph, const Schedule& schedule, ExecutedPlan& executed) {
  std::vector<std::pair<std::int64_t, std::size_t>> order;
  for (std::size_t i = 0; i < executed.timed.size(); ++i) {
    order.emplace_back(executed.timed[i].time_ns, i);
  }
  std::sort(order.begin(), order.end());
  const ExecutedStep& median = executed.timed[order[(order.size() - 1) / 2].second];
  executed.step_ns = median.time_ns;
  executed.kind_ns = times_by_kind(schedule, median.steps);
  executed.op_kinds = times_by_op_kind(graph, schedule, median.steps);
}

void hold_against(const Graph& graph, const Schedule& schedule,
                  const std::vector<StepTrace>& simulated, const ExecutedStep& step,
                  ExecutedPlan& executed) {
  executed.simulated_peak_bytes = std::max(executed.simulated_peak_bytes, peak_of(simulated));
  executed.measured_peak_bytes = std::max(executed.measured_peak_bytes, step.peak_bytes);
  executed.compared_steps += static_cast<std::int64_t>(step.steps.size());
  if (executed.bytes_difference) return;
  executed.bytes_difference = first_difference(graph, schedule, simulated, step.steps);
  if (executed.bytes_difference) {
    executed.bytes_difference->training_step = static_cast<std::int64_t>(executed.losses.size());
  }
}

}  // namespace

std::int64_t all_ns(const OpKindTime& time) {
  return time.forward_ns + time.recompute_ns + time.backward_ns;
}

bool is_finite(const ExecutedPlan& executed) { return std::isfinite(executed.losses.back()); }

SimulatedPlan simulated_plan(const Graph& graph, const Evaluation& evaluation) {
  return {.schedule = evaluation.schedule,
          .first = simulate_first_step(graph, evaluation.schedule),
          .later = evaluation.trace.steps};
}

namespace {

// All training steps, until a loss is not finite. The executor's memory is given back behind them.
void run_steps(const Execution& execution, const SimulatedPlan& simulated, ExecutedPlan& executed) {
  const Graph& graph = execution.graph;
  const Schedule& schedule = simulated.schedule;
  Executor executor(graph, schedule, execution.device, execution.options);
  for (std::int64_t i = 0; i < execution.step_count; ++i) {
    if (execution.text != nullptr) execution.text->load(executor, i);
    GradientHashes hashes;
    ExecutedStep step =
        executor.run_step([&](const GradientSeen& seen) { add_to_hash(seen, hashes); });
    executed.losses.push_back(step.loss);
    executed.gradients.push_back(std::move(hashes));
    hold_against(graph, schedule, i == 0 ? simulated.first : simulated.later, step, executed);
    if (i == 1) executed.timed.clear();
    executed.timed.push_back(std::move(step));
    if (!is_finite(executed)) break;
  }
  executed.footprint_bytes = execution.device.peak_footprint_bytes();
}

}  // namespace

ExecutedPlan execute_plan(const Execution& execution, const SimulatedPlan& simulated) {
  Device& device = execution.device;
  ExecutedPlan executed;
  device.begin_footprint_peak();
  run_steps(execution, simulated, executed);
  // What is left then is no tensor's: code, and buffers of a BLAS, which the first products fill.
  device.begin_footprint_peak();
  executed.footprint_bytes -= device.footprint_bytes();
  add_times(execution.graph, simulated.schedule, executed);
  return executed;
}

namespace {

// Of one parameter in one training step.
std::vector<std::uint8_t> gradient_bytes_of(const Execution& execution, const Schedule& schedule,
                                            std::size_t training_step, TensorId parameter) {
  Executor executor(execution.graph, schedule, execution.device, execution.options);
  std::vector<std::uint8_t> bytes;
  for (std::size_t i = 0; i <= training_step; ++i) {
    if (execution.text != nullptr) execution.text->load(executor, static_cast<std::int64_t>(i));
    executor.run_step([&](const GradientSeen& seen) {
      if (i < training_step || seen.parameter != parameter) return;
      bytes.insert(bytes.end(), seen.bytes.begin(), seen.bytes.end());
    });
  }
  return bytes;
}

double number_at(const std::vector<std::uint8_t>& bytes, DataType type, std::size_t element) {
  const auto width = static_cast<std::size_t>(bytes_per_element(type));
  std::vector<std::uint8_t> copy(
      bytes.begin() + static_cast<std::ptrdiff_t>(element * width),
      bytes.begin() + static_cast<std::ptrdiff_t>(element * width + width));
  const Elements elements{.data = copy.data(), .type = type};
  return elements.get<double>(0);
}

GradientDifference difference_in(const Execution& execution, const Schedule& schedule,
                                 const Schedule& reference_schedule, std::size_t training_step,
                                 TensorId parameter) {
  const std::vector<std::uint8_t> found =
      gradient_bytes_of(execution, schedule, training_step, parameter);
  const std::vector<std::uint8_t> expected =
      gradient_bytes_of(execution, reference_schedule, training_step, parameter);
  GradientDifference difference{.training_step = static_cast<std::int64_t>(training_step) + 1,
                                .parameter = parameter};
  const DataType type = execution.graph.tensor(parameter).data_type;
  const auto width = static_cast<std::size_t>(bytes_per_element(type));
  const std::size_t same = static_cast<std::size_t>(
      std::mismatch(found.begin(), found.end(), expected.begin(), expected.end()).first -
      found.begin());
  const std::size_t element = same / width;
  if ((element + 1) * width > std::min(found.size(), expected.size())) return difference;
  difference.element = static_cast<std::int64_t>(element);
  difference.value = number_at(found, type, element);
  difference.reference_value = number_at(expected, type, element);
  return difference;
}

}  // namespace

std::optional<GradientDifference> gradient_difference(const Execution& execution,
                                                      const Schedule& schedule,
                                                      const ExecutedPlan& executed,
                                                      const Schedule& reference_schedule,
                                                      const ExecutedPlan& reference) {
  const std::size_t step_count = std::min(executed.gradients.size(), reference.gradients.size());
  for (std::size_t i = 0; i < step_count; ++i) {
    for (const auto& [parameter, hash] : reference.gradients[i]) {
      const auto found = executed.gradients[i].find(parameter);
      if (found != executed.gradients[i].end() && found->second == hash) continue;
      return difference_in(execution, schedule, reference_schedule, i, parameter);
    }
  }
  return std::nullopt;
}

}  // namespace cairn
