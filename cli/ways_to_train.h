#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/advice.h"
#include "cli/model_options.h"
#include "graph/device_spec.h"
#include "models/load_model.h"
#include "planner/evaluation.h"

// Full training of one model beside LoRA and QLoRA, by the recipes of its library, which `cairn
// fit` shows where the user names none of them.

namespace cairn {

// With what else was typed left as it is.
struct WayQuestion {
  const ModelOptions& options;
  const std::optional<std::string>& extent;  // as typed
  const OpenedModel& opened;                 // the model's files
  const LoadedModel& model;                  // as it was asked for
  const DeviceSpec* device = nullptr;
};

struct WaysToTrain {
  std::vector<WayToTrain> ways = {};
  std::vector<std::string> notes =
      {};  // what is left out, or shown with options of its own, and why
};

// Does the user choose a way to train: a recipe, adapters, quantised weights, a part of the model?
bool chooses_way_to_train(const ModelOptions& options);

// What an evaluation says of a strategy; `none` is the same model without checkpointing, and its
// FLOPs.
StrategyNumbers strategy_numbers(const Evaluation& evaluation, const Evaluation& none,
                                 std::int64_t none_flops);

// Of a model that is loaded as it is to be trained. `strategies` are evaluated, "none" first.
WayToTrain way_to_train(const std::string& name, const LoadedModel& model,
                        std::vector<StrategyNumbers> strategies);

// By each recipe of the model's library that has adapters and needs one GPU, without checkpointing
// and with that of every layer. Where the model lacks what the recipe targets, or is not counted
// under its precision, with the options that it needs; a note says so, and what is left out.
WaysToTrain ways_with_adapters(const WayQuestion& question);

// A row for each.
std::string ways_text(const std::vector<WayToTrain>& ways,
                      std::optional<std::int64_t> capacity_bytes);

}  // namespace cairn
