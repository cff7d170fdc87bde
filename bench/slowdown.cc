// The slowdown that measured costs predict for a plan, against the one that is measured: keep-all
// and the plan step by step in turn, medians of both.
//
//   bench_slowdown MODEL STRATEGY STEPS [dim=value ...]    batch=, tokens= and dims of the model

#include <fmt/format.h>
#include <sys/resource.h>

#include <array>
#include <cstdlib>
#include <string>
#include <vector>

#include "cli/measured_costs.h"
#include "executor/device.h"
#include "executor/executor.h"
#include "executor/workspaces.h"
#include "graph/training_step.h"
#include "models/load_model.h"
#include "planner/planner.h"

namespace {

constexpr double kMillisecond = 1e6;

std::int64_t page_faults() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_minflt;
}

// One schedule, run again and again.
struct Runner {
  const cairn::Graph& graph;
  cairn::Schedule schedule = {};
  cairn::Executor executor;
  std::vector<cairn::ExecutedStep> steps = {};
  std::vector<std::int64_t> faults = {};

  Runner(const cairn::Graph& of, const cairn::TrainingStep& step, const cairn::Plan& plan,
         cairn::Device& device)
      : graph(of),
        schedule(cairn::lower_training_step(of, step, cairn::lower(of, plan))),
        executor(of, schedule, device, {}) {}

  void run(bool is_measured) {
    const std::int64_t before = page_faults();
    cairn::ExecutedStep step = executor.run_step();
    if (!is_measured) return;
    faults.push_back(page_faults() - before);
    steps.push_back(std::move(step));
  }

  // The sum of the medians of the steps of one kind.
  double milliseconds(cairn::StepKind kind) const {
    double sum_ms = 0;
    for (std::size_t i = 0; i < steps[0].steps.size(); ++i) {
      if (schedule.steps[steps[0].steps[i].step].kind != kind) continue;
      std::vector<std::int64_t> times_ns;
      for (const cairn::ExecutedStep& step : steps) times_ns.push_back(step.steps[i].time_ns);
      sum_ms += static_cast<double>(cairn::measured_time(times_ns).median_ns) / kMillisecond;
    }
    return sum_ms;
  }

  cairn::MeasuredTime time() const {
    std::vector<std::int64_t> times_ns;
    for (const cairn::ExecutedStep& step : steps) times_ns.push_back(step.time_ns);
    return cairn::measured_time(times_ns);
  }

  void print(const char* name) const {
    using cairn::StepKind;
    fmt::print(
        "  {:9} {:8.1f} ms a step (quartiles {:.1f} apart): forward {:.1f}, recompute {:.1f}, "
        "backward {:.1f}, optimizer {:.1f}; {} page faults\n",
        name, static_cast<double>(time().median_ns) / kMillisecond,
        static_cast<double>(time().spread_ns) / kMillisecond, milliseconds(StepKind::kCompute),
        milliseconds(StepKind::kRecompute), milliseconds(StepKind::kBackward),
        milliseconds(StepKind::kOptimizerStep), cairn::measured_time(faults).median_ns);
  }
};

cairn::ModelRequest request_of(int count, char** arguments) {
  cairn::ModelRequest request{
      .model = arguments[1],
      .precision = cairn::Precision{.parameter_type = cairn::DataType::kFloat32}};
  for (int i = 4; i < count; ++i) {
    const std::string text = arguments[i];
    const std::size_t equals = text.find('=');
    const std::string name = text.substr(0, equals);
    const std::string value = text.substr(equals + 1);
    if (name == "batch") {
      request.batch = std::stoll(value);
    } else if (name == "tokens") {
      request.tokens = std::stoll(value);
    } else {
      request.set.emplace_back(name, value);
    }
  }
  return request;
}

void run(const cairn::ModelRequest& request, const std::string& strategy, int step_count) {
  const cairn::LoadedModel model = cairn::load_model(request);
  const cairn::Graph graph = cairn::with_executor_workspaces(model.graph);
  const cairn::Plan plan =
      cairn::make_plan(graph, cairn::parse_strategy(strategy), cairn::Extent::kNeeded);
  const std::unique_ptr<cairn::Device> device = cairn::make_cpu_device();
  Runner keep_all(graph, model.recipe.step, cairn::keep_all_plan(graph), *device);
  Runner planned(graph, model.recipe.step, plan, *device);
  for (int i = 0; i <= step_count; ++i) {
    keep_all.run(i > 0);
    planned.run(i > 0);
  }
  const cairn::MeasuredCosts costs =
      cairn::measured_costs(graph, keep_all.schedule, keep_all.steps, device->name());
  const double predicted =
      cairn::predicted_slowdown(graph, planned.schedule, keep_all.schedule, costs);
  const double measured = static_cast<double>(planned.time().median_ns) /
                              static_cast<double>(keep_all.time().median_ns) -
                          1;
  fmt::print("{} {}: predicted {:+.1f} %, measured {:+.1f} %: a step {:+.1f} % off\n",
             request.model, strategy, 100 * predicted, 100 * measured,
             100 * ((1 + predicted) / (1 + measured) - 1));
  keep_all.print("keep-all");
  planned.print(strategy.c_str());
}

}  // namespace

int main(int count, char** arguments) {
  if (count < 4) {
    fmt::print(stderr, "bench_slowdown MODEL STRATEGY STEPS [dim=value ...]\n");
    return 2;
  }
  run(request_of(count, arguments), arguments[2], std::atoi(arguments[3]));
  return 0;
}
