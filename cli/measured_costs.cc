#include "cli/measured_costs.h"

#include <algorithm>
#include <utility>

#include "graph/checked.h"
#include "graph/error.h"
#include "sim/roofline.h"

namespace cairn {
namespace {

using Times = std::vector<std::int64_t>;

// What lies `share` of the way from the first of sorted values to the last.
std::int64_t quantile(const Times& sorted, double share) {
  const double place = share * static_cast<double>(sorted.size() - 1);
  const auto low = static_cast<std::size_t>(place);
  const std::size_t high = std::min(low + 1, sorted.size() - 1);
  const double part = place - static_cast<double>(low);
  return sorted[low] +
         static_cast<std::int64_t>(static_cast<double>(sorted[high] - sorted[low]) * part);
}

// All times of each thing, over all steps.
struct Gathered {
  std::vector<Times> forward = {};   // by op
  std::vector<Times> backward = {};  // by op
  Times optimizer = {};
  Times overhead = {};
  Times step = {};
};

void gather(const Schedule& schedule, const ExecutedStep& executed, Gathered& gathered) {
  std::int64_t optimizer_ns = 0;
  std::int64_t steps_ns = 0;
  for (const MeasuredStep& measured : executed.steps) {
    const Step& step = schedule.steps[measured.step];
    steps_ns += measured.time_ns * times_run(schedule, step);
    if (step.kind == StepKind::kCompute) {
      gathered.forward[index(step.op)].push_back(measured.time_ns);
    } else if (step.kind == StepKind::kBackward) {
      gathered.backward[index(step.op)].push_back(measured.time_ns);
    } else if (step.kind == StepKind::kOptimizerStep) {
      optimizer_ns += measured.time_ns * times_run(schedule, step);
    }
  }
  gathered.optimizer.push_back(optimizer_ns);
  // A micro-batch that stands for several is measured once: what the others took is not exact.
  gathered.overhead.push_back(std::max<std::int64_t>(0, executed.time_ns - steps_ns));
  gathered.step.push_back(executed.time_ns);
}

}  // namespace

MeasuredTime measured_time(Times times_ns) {
  if (times_ns.empty()) return {};
  std::sort(times_ns.begin(), times_ns.end());
  return {.median_ns = quantile(times_ns, 0.5),
          .spread_ns = quantile(times_ns, 0.75) - quantile(times_ns, 0.25)};
}

MeasuredCosts measured_costs(const Graph& graph, const Schedule& schedule,
                             const std::vector<ExecutedStep>& steps, const std::string& device) {
  Gathered gathered;
  gathered.forward.resize(graph.ops.size());
  gathered.backward.resize(graph.ops.size());
  for (const ExecutedStep& step : steps) gather(schedule, step, gathered);
  MeasuredCosts costs{.device = device,
                      .step_count = static_cast<std::int64_t>(steps.size()),
                      .step = measured_time(std::move(gathered.step)),
                      .optimizer = measured_time(std::move(gathered.optimizer)),
                      .overhead = measured_time(std::move(gathered.overhead))};
  for (std::size_t i = 0; i < graph.ops.size(); ++i) {
    MeasuredOp op{.name = graph.ops[i].name,
                  .forward = measured_time(std::move(gathered.forward[i]))};
    if (!gathered.backward[i].empty()) op.backward = measured_time(std::move(gathered.backward[i]));
    costs.ops.push_back(std::move(op));
  }
  return costs;
}

double predicted_slowdown(const Graph& graph, const Schedule& schedule, const Schedule& reference,
                          const MeasuredCosts& costs) {
  Graph timed = graph;
  set_measured_times(timed, costs);
  const auto total_ns = [&](const Schedule& of) {
    const std::optional<ScheduleTime> time = schedule_time(timed, of, nullptr, rest_ns(costs));
    CAIRN_CHECK(time.has_value(), "every op has a measured time");
    return static_cast<double>(time->total_ns);
  };
  const double reference_ns = total_ns(reference);
  return reference_ns > 0 ? total_ns(schedule) / reference_ns - 1 : 0;
}

}  // namespace cairn
