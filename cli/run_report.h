#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/executed_plan.h"
#include "cli/measured_costs.h"
#include "cli/model_options.h"
#include "models/load_model.h"
#include "planner/evaluation.h"

// `cairn run` in three steps: choose the plan, run it and keep-all on the device, print what was
// measured beside what was simulated.

namespace cairn {

struct RunOptions {
  ModelOptions model = {};
  std::optional<std::string> budget = {};
  std::optional<std::string> checkpointing = {};
  std::optional<std::string> extent = {};
  std::optional<std::string> plan = {};
  std::string device = "cpu";
  std::string steps = "2";
  std::optional<std::string> limit = {};
  std::optional<std::string> profile = {};
  std::optional<std::string> text = {};
  std::string seed = "1";
  std::optional<std::string> learning_rate = {};
  std::optional<std::string> save_tensors = {};
  bool poison = false;
  bool alone = false;
  bool json = false;
};

// The first training step whose losses differ.
struct LossDifference {
  std::int64_t training_step = 0;  // from 1
  double loss = 0;
  double reference_loss = 0;
};

// How much longer the plan's step takes than that of keep-all: 0.24 is 24 %. By FLOPs, and with a
// run of keep-all as measured, and as predicted from the times of its ops.
struct Slowdowns {
  double by_flops = 0;
  std::optional<double> by_times = {};
  std::optional<double> measured = {};
};

struct RunReport {
  ModelRequest request = {};
  LoadedModel model = {};
  Graph graph = {};  // the model's, with the workspaces of the executor's kernels
  std::string device = {};
  std::int64_t step_count = 0;
  std::uint64_t seed = 0;
  std::optional<std::int64_t> limit_bytes = {};
  Evaluation evaluation = {};
  ExecutedPlan executed = {};
  // Keep-all over the same order of ops; its run is empty with --alone.
  Evaluation reference_evaluation = {};
  std::optional<ExecutedPlan> reference = {};
  std::optional<MeasuredCosts> costs = {};  // of its ops
  Slowdowns slowdowns = {};
  std::optional<LossDifference> loss_difference = {};
  std::optional<GradientDifference> gradient_difference = {};
  std::vector<std::string> notes = {};
};

struct RunAnswer {
  std::optional<RunReport> report = {};  // empty where no plan fits the budget
  std::string verdict = {};              // then, why not
};

// Throws InputError, and DeviceError.
RunAnswer answer_run(const RunOptions& options);

// Every byte, gradient and loss; and every loss is a number.
bool holds(const RunReport& report);

std::string run_text(const RunReport& report);
std::string run_json(const RunReport& report);

}  // namespace cairn
