// The slowdown that measured costs predict for plans, against the one that is measured: keep-all
// and the plan step by step in turn, medians of both. Costs are those of the same steps of
// keep-all.
//
//   bench_slowdown [STEPS [PART OF A CASE'S NAME]]
//
// What else runs on the machine is in both; where there is much of it, one thread
// (OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1) waits for no other, and the fastest runs of each step
// say more than medians of whole ones.

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cli/measured_costs.h"
#include "executor/device.h"
#include "executor/executor.h"
#include "executor/workspaces.h"
#include "graph/training_step.h"
#include "models/load_model.h"
#include "planner/plan_for_budget.h"

namespace {

using cairn::StepKind;

constexpr double kMillisecond = 1e6;

struct Case {
  std::string name = {};
  cairn::ModelRequest request = {};
};

std::vector<Case> cases() {
  const cairn::Precision fp32{.parameter_type = cairn::DataType::kFloat32};
  return {{"a GPT of 12 layers, 256 wide",
           {.model = "gpt2",
            .tokens = 256,
            .vocab = 1024,
            .set = {{"hidden", "256"},
                    {"heads", "4"},
                    {"ffn", "1024"},
                    {"embedding_dropout", "0"},
                    {"residual_dropout", "0"},
                    {"attention_dropout", "0"}},
            .precision = fp32}},
          {"a Llama of 6 layers, 128 wide",
           {.model = "llama-3.2-1b",
            .batch = 4,
            .tokens = 64,
            .vocab = 512,
            .set = {{"layers", "6"},
                    {"hidden", "128"},
                    {"heads", "4"},
                    {"kv_heads", "2"},
                    {"head_dim", "32"},
                    {"ffn", "344"}},
            .precision = fp32}},
          {"resnet-18, 2 images", {.model = "resnet-18", .batch = 2, .precision = fp32}}};
}

std::int64_t page_faults() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_minflt;
}

// One schedule, run again and again.
struct Runner {
  cairn::Schedule schedule = {};
  cairn::Executor executor;
  std::vector<cairn::ExecutedStep> steps = {};
  std::vector<std::int64_t> faults = {};

  Runner(const cairn::Graph& graph, const cairn::TrainingStep& step, const cairn::Plan& plan,
         cairn::Device& device)
      : schedule(cairn::lower_training_step(graph, step, cairn::lower(graph, plan))),
        executor(graph, schedule, device, {}) {}

  void run(bool is_measured) {
    const std::int64_t before = page_faults();
    cairn::ExecutedStep step = executor.run_step();
    if (!is_measured) return;
    faults.push_back(page_faults() - before);
    steps.push_back(std::move(step));
  }

  cairn::MeasuredTime time() const {
    std::vector<std::int64_t> times_ns;
    for (const cairn::ExecutedStep& step : steps) times_ns.push_back(step.time_ns);
    return cairn::measured_time(times_ns);
  }

  // A training step of which every step took what its fastest run did: what else the machine did
  // meanwhile makes steps slower, and none faster.
  cairn::ExecutedStep fastest() const {
    cairn::ExecutedStep result = steps[0];
    std::int64_t between_ns = steps[0].time_ns;  // steps
    for (const cairn::ExecutedStep& step : steps) {
      std::int64_t sum_ns = 0;
      for (std::size_t i = 0; i < step.steps.size(); ++i) {
        sum_ns += step.steps[i].time_ns;
        result.steps[i].time_ns = std::min(result.steps[i].time_ns, step.steps[i].time_ns);
      }
      between_ns = std::min(between_ns, step.time_ns - sum_ns);
    }
    result.time_ns = between_ns;
    for (const cairn::MeasuredStep& step : result.steps) result.time_ns += step.time_ns;
    return result;
  }

  // The sum of the medians of all steps of a kind.
  double milliseconds(StepKind kind) const {
    double sum_ms = 0;
    for (std::size_t i = 0; i < steps[0].steps.size(); ++i) {
      if (schedule.steps[steps[0].steps[i].step].kind != kind) continue;
      std::vector<std::int64_t> times_ns;
      for (const cairn::ExecutedStep& step : steps) times_ns.push_back(step.steps[i].time_ns);
      sum_ms += static_cast<double>(cairn::measured_time(times_ns).median_ns) / kMillisecond;
    }
    return sum_ms;
  }

  void print(const std::string& name) const {
    fmt::print(
        "    {:11} {:8.1f} ms (quartiles {:.1f} apart): forward {:.1f}, recompute {:.1f}, backward "
        "{:.1f}, optimizer {:.1f}; {} page faults\n",
        name, static_cast<double>(time().median_ns) / kMillisecond,
        static_cast<double>(time().spread_ns) / kMillisecond, milliseconds(StepKind::kCompute),
        milliseconds(StepKind::kRecompute), milliseconds(StepKind::kBackward),
        milliseconds(StepKind::kOptimizerStep), cairn::measured_time(faults).median_ns);
  }
};

struct Bench {
  const Case& of;
  int step_count = 0;
  cairn::LoadedModel model = cairn::load_model(of.request);
  cairn::Graph graph = cairn::with_executor_workspaces(model.graph);
  std::unique_ptr<cairn::Device> device = cairn::make_cpu_device();

  void print_slowdowns(const std::string& of_what, const Runner& keep_all, const Runner& planned,
                       const std::vector<cairn::ExecutedStep>& keep_all_steps,
                       double measured_ratio) const {
    const double predicted = cairn::predicted_slowdown(
        graph, planned.schedule, keep_all.schedule,
        cairn::measured_costs(graph, keep_all.schedule, keep_all_steps, device->name()));
    fmt::print("    {}: predicted {:+.1f} %, measured {:+.1f} %: the step {:+.1f} % off\n", of_what,
               100 * predicted, 100 * (measured_ratio - 1),
               100 * ((1 + predicted) / measured_ratio - 1));
  }

  void compare(const std::string& name, const cairn::Plan& plan) {
    Runner keep_all(graph, model.recipe.step, cairn::keep_all_plan(graph), *device);
    Runner planned(graph, model.recipe.step, plan, *device);
    for (int i = 0; i <= step_count; ++i) {
      keep_all.run(i > 0);
      planned.run(i > 0);
    }
    fmt::print("  {}\n", name);
    print_slowdowns("medians", keep_all, planned, keep_all.steps,
                    static_cast<double>(planned.time().median_ns) /
                        static_cast<double>(keep_all.time().median_ns));
    print_slowdowns("fastest", keep_all, planned, {keep_all.fastest()},
                    static_cast<double>(planned.fastest().time_ns) /
                        static_cast<double>(keep_all.fastest().time_ns));
    keep_all.print("keep-all");
    planned.print(name);
  }

  // The cheapest by measured times whose peak lies between the least and that of keep-all.
  cairn::Plan plan_by_measured_times() {
    Runner keep_all(graph, model.recipe.step, cairn::keep_all_plan(graph), *device);
    for (int i = 0; i <= step_count; ++i) keep_all.run(i > 0);
    const cairn::MeasuredCosts costs =
        cairn::measured_costs(graph, keep_all.schedule, keep_all.steps, device->name());
    cairn::Graph timed = graph;
    cairn::set_measured_times(timed, costs);
    const cairn::PlanRequest request{.setting = {.extent = cairn::Extent::kNeeded,
                                                 .step = model.recipe.step,
                                                 .rest_ns = cairn::rest_ns(costs)}};
    const std::int64_t most =
        cairn::plan_for_budget(timed, {.strategy = {}, .setting = request.setting}, 0)
            .evaluation.trace.peak_bytes;
    const std::int64_t least =
        cairn::plan_for_budget(timed, request, 0).evaluation.trace.peak_bytes;
    return cairn::plan_for_budget(timed, request, (most + least) / 2).evaluation.plan;
  }
};

void run(const Case& of, int step_count) {
  fmt::print("{}\n", of.name);
  Bench bench{.of = of, .step_count = step_count};
  for (const std::string name : {"every-layer", "sqrt"}) {
    bench.compare(
        name, cairn::make_plan(bench.graph, cairn::parse_strategy(name), cairn::Extent::kNeeded));
  }
  bench.compare("a budget", bench.plan_by_measured_times());
}

}  // namespace

int main(int count, char** arguments) {
  const int step_count = count > 1 ? std::atoi(arguments[1]) : 20;
  const std::string part = count > 2 ? arguments[2] : "";
  for (const Case& of : cases()) {
    if (of.name.find(part) != std::string::npos) run(of, std::max(step_count, 1));
  }
  return 0;
}
