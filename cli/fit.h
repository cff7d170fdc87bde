#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/advice.h"
#include "cli/explain.h"
#include "cli/model_options.h"
#include "cli/step_names.h"
#include "graph/device_spec.h"
#include "models/load_model.h"

// `cairn fit` in three steps: answer the question, then print the answer as text or as JSON.

namespace cairn {

struct FitOptions {
  ModelOptions model = {};
  std::optional<std::string> gpu = {};
  std::vector<std::string> checkpointing = {};
  std::optional<std::string> extent = {};
  bool explain = false;
  bool json = false;
};

struct FitAnswer {
  LoadedModel model = {};
  std::optional<LoadedModel> checkpointed = {};  // where layers are, if that makes another graph
  std::optional<DeviceSpec> gpu = {};
  Extent extent = Extent::kPrefix;
  std::optional<std::string> own_strategy = {};  // the recipe's
  ForwardPeak without_gradients = {};
  std::vector<Evaluation> evaluations = {};  // "none" first
  std::int64_t step_flops = 0;               // of one forward and backward pass
  bool slowdown_is_time = false;             // else it is of FLOPs
  std::vector<WayToTrain> ways = {};         // this one, and others where the user chose none
  AdviceInput advice_input = {};             // its strategies are `evaluations`, in order
  std::size_t recommended = 0;
  std::string verdict = {};
  std::vector<std::string> advice = {};
  std::vector<std::string> notes = {};
  std::vector<ExplainedTerm> explanation = {};  // of the recommended one, where asked for
};

// Throws InputError.
FitAnswer answer_fit(const FitOptions& options);

// The one whose graph the evaluation is of.
const LoadedModel& model_of(const FitAnswer& answer, const Evaluation& evaluation);

// Over a step of the first evaluation: recomputes, and what backward passes do more.
std::int64_t extra_flops(const FitAnswer& answer, const Evaluation& evaluation);

std::string fit_text(const FitAnswer& answer);
std::string fit_json(const FitAnswer& answer);

// What this version leaves out of its bytes, one entry each.
std::vector<std::string> not_counted();

}  // namespace cairn
