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

// Full training, LoRA and QLoRA of one model side by side, which `cairn fit` shows where the user
// names none of them.

namespace cairn {

// With what else was typed left as it is.
struct WayQuestion {
  const ModelOptions& options;
  const std::optional<std::string>& extent;  // as typed
  const OpenedModel& opened;                 // the model's files
  const DeviceSpec* device = nullptr;
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

// LoRA and QLoRA, by the recipes hf-lora and qlora, each without checkpointing and with that of
// every layer; none where the model has no place for adapters, or a typed option goes with none.
std::vector<WayToTrain> ways_with_adapters(const WayQuestion& question);

// A row for each.
std::string ways_text(const std::vector<WayToTrain>& ways,
                      std::optional<std::int64_t> capacity_bytes);

}  // namespace cairn
