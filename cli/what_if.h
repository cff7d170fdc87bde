#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

#include "cli/advice.h"
#include "cli/step_names.h"
#include "graph/plan.h"
#include "models/load_model.h"

// The numbers behind the advice of `cairn fit` that its table does not have: what else would fit.

namespace cairn {

// What is asked, and what came of it.
struct WhatIf {
  const ModelRequest& request;
  const OpenedModel& opened;  // the model's files
  const LoadedModel& model;
  const std::vector<Evaluation>& evaluations;      // "none" first
  const std::vector<StrategyNumbers>& strategies;  // the same, in order
  const Evaluation& evaluation;                    // the recommended one of these
  Extent extent = Extent::kPrefix;
  std::int64_t capacity_bytes = 0;
};

// The largest batch with which the same strategy still fits; at most twelve evaluations. Empty when
// none does, or for a graph whose batch cannot be changed.
std::optional<SizeThatFits> larger_batch_that_fits(const WhatIf& what_if);

// The largest smaller batch, else the most tokens at batch 1, that fit where what was asked does
// not, with the cheapest strategy that fits there; at most twelve evaluations to find the size.
std::optional<SizeThatFits> smaller_size_that_fits(const WhatIf& what_if);

// Options of the optimizer with which the same plan fits: fewer states, or a step in backward,
// which drops gradients as they come. Each is evaluated.
std::vector<OptimizerThatFits> optimizers_that_fit(const WhatIf& what_if);

// Of a model with adapters: without dropout and in bf16, and beside weights of 4 bits, as far as
// that is not so already and makes the peak of the recommended strategy smaller.
std::vector<OptionsThatSave> options_that_save(const WhatIf& what_if);

// The (at most four) smallest GPUs on which some strategy fits, with the cheapest that does.
std::vector<GpuThatFits> gpus_that_fit(const std::vector<StrategyNumbers>& strategies,
                                       const std::vector<std::filesystem::path>& folders);

// Parameters, their gradients and the optimizer's states, all live at the end of backward.
std::int64_t training_state_bytes(const Graph& graph, const TrainingStep& step);

// The whole number a model's dim has; 0 when there is no such dim.
std::int64_t dim_value(const LoadedModel& model, std::string_view name);

}  // namespace cairn
