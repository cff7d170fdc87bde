#include "cli/what_if.h"

#include <fmt/format.h>

#include <algorithm>
#include <future>
#include <string>
#include <string_view>
#include <utility>

#include "cli/largest_size.h"
#include "graph/checked.h"
#include "graph/error.h"
#include "graph/same_structure.h"
#include "graph/training_step.h"
#include "models/gpu_catalogue.h"
#include "models/optimizer.h"
#include "models/training_keys.h"
#include "sim/simulator.h"

namespace cairn {
namespace {

// The searches stay cheap: they end after so many evaluations, or so many ops evaluated. Counted,
// not timed, so that the same question always has the same answer.
constexpr int kMostEvaluations = 12;
constexpr std::size_t kMostOpsEvaluated = 24000;
// Beyond this many ops the advice is not worth the wait.
constexpr std::size_t kMostOps = 8000;
constexpr std::int64_t kMostBatch = std::int64_t{1} << 20;
// Fewer tokens are proposed in whole steps, down to where a step would be coarse.
constexpr std::int64_t kTokensStep = 256;
constexpr std::int64_t kFewTokens = 1024;
constexpr std::size_t kMostGpus = 4;

// The evaluation's strategy at another size. Where only sizes differ its schedule holds there too,
// and needs no second proof of its order; of its trace there is the peak alone.
Evaluation evaluate_resized(const WhatIf& what_if, const Evaluation& evaluation,
                            const Graph& resized) {
  const bool has_same_schedule =
      have_same_structure(resized, what_if.model.graph) &&
      is_same_plan(make_plan(resized, evaluation.strategy, what_if.extent), evaluation.plan);
  if (!has_same_schedule) {
    return evaluate(resized, evaluation.strategy,
                    {.extent = what_if.extent, .step = what_if.model.recipe.step});
  }
  Evaluation same{.strategy = evaluation.strategy,
                  .name = evaluation.name,
                  .plan = evaluation.plan,
                  .schedule = evaluation.schedule};
  same.trace.peak_bytes = simulated_peak_bytes(resized, same.schedule);
  return same;
}

// Peaks at other sizes.
class Resizing {
 public:
  explicit Resizing(const WhatIf& what_if) : what_if_(what_if) {}

  // Empty where it is too large for 64-bit numbers, or not allowed.
  std::optional<std::int64_t> peak_bytes(const Evaluation& evaluation, std::int64_t batch,
                                         std::int64_t tokens) {
    ModelRequest request = what_if_.request;
    request.batch = batch;
    if (tokens > 0) request.tokens = tokens;  // images have none
    request.is_checkpointed = !evaluation.plan.regions.empty();
    try {
      LoadedModel model = load_opened_model(request, what_if_.opened);
      Evaluation resized = evaluate_resized(what_if_, evaluation, model.graph);
      const std::int64_t bytes = resized.trace.peak_bytes;
      if (bytes <= what_if_.capacity_bytes) {
        fitting_graph_ = std::move(model.graph);
        fitting_ = std::move(resized);
      }
      return bytes;
    } catch (const InputError&) {
      return std::nullopt;
    }
  }

  // Has the validator prove the last that fitted, which is the one that is reported.
  void prove_last() const {
    if (fitting_) check_with_validator(fitting_graph_, what_if_.model.recipe.step, *fitting_);
  }

 private:
  const WhatIf& what_if_;
  Graph fitting_graph_ = {};
  std::optional<Evaluation> fitting_ = {};
};

int allowed_evaluations(const WhatIf& what_if) {
  const std::size_t op_count = std::max<std::size_t>(what_if.model.graph.ops.size(), 1);
  return static_cast<int>(std::min<std::size_t>(
      kMostEvaluations, std::max<std::size_t>(kMostOpsEvaluated / op_count, 3)));
}

SizeThatFits size_that_fits(const WhatIf& what_if, std::int64_t batch, std::int64_t tokens,
                            const LargestSize& found) {
  return {.batch = batch,
          .tokens = tokens,
          .strategy = what_if.evaluation.name,
          .peak_bytes = found.peak_bytes,
          .is_largest = found.is_largest};
}

// The same size with the cheapest strategy that fits there too.
SizeThatFits with_cheapest_strategy(const WhatIf& what_if, Resizing& resizing, SizeThatFits size) {
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < what_if.strategies.size(); ++i) order.push_back(i);
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return is_cheaper(what_if.strategies[a], what_if.strategies[b]);
  });
  for (const std::size_t i : order) {
    const Evaluation& evaluation = what_if.evaluations[i];
    if (evaluation.name == size.strategy) break;
    const auto peak = resizing.peak_bytes(evaluation, size.batch, size.tokens);
    if (!peak || *peak > what_if.capacity_bytes) continue;
    size.strategy = evaluation.name;
    size.peak_bytes = *peak;
    break;
  }
  resizing.prove_last();
  return size;
}

// The most tokens below those asked for, at batch 1.
std::optional<SizeThatFits> fewer_tokens_that_fit(const WhatIf& what_if, Resizing& resizing,
                                                  std::int64_t tokens, SizePeak resident,
                                                  int& evaluations_left) {
  const auto search = [&](std::int64_t step, std::int64_t too_many) -> LargestSize {
    return largest_size_that_fits({.fits = resident,
                                   .too_large = SizePeak{.size = too_many},
                                   .most_size = too_many,
                                   .capacity_bytes = what_if.capacity_bytes},
                                  evaluations_left, [&](std::int64_t size) {
                                    return resizing.peak_bytes(what_if.evaluation, 1, size * step);
                                  });
  };
  if (tokens > kFewTokens) {
    const LargestSize found = search(kTokensStep, (tokens + kTokensStep - 1) / kTokensStep);
    if (found.size * kTokensStep >= kFewTokens) {
      return size_that_fits(what_if, 1, found.size * kTokensStep, found);
    }
  }
  const LargestSize found = search(1, std::min(tokens, kFewTokens));
  if (found.size == 0) return std::nullopt;
  return size_that_fits(what_if, 1, found.size, found);
}

bool is_worth_trying(const WhatIf& what_if) {
  return dim_value(what_if.model, "batch") > 0 && what_if.model.graph.ops.size() <= kMostOps;
}

// The peak of the same plan with another optimizer, or another step.
std::int64_t peak_with(const WhatIf& what_if, ModelRequest request) {
  request.is_checkpointed = !what_if.evaluation.plan.regions.empty();
  const LoadedModel model = load_opened_model(request, what_if.opened);
  const Schedule schedule = lower_training_step(model.graph, model.recipe.step,
                                                lower(model.graph, what_if.evaluation.plan));
  return simulated_peak_bytes(model.graph, schedule);
}

// The recommended strategy's peak where its plan may be another; empty where the model is not
// trained so.
std::optional<std::int64_t> replanned_peak(const WhatIf& what_if, ModelRequest request) {
  request.is_checkpointed = !what_if.evaluation.plan.regions.empty();
  try {
    const LoadedModel model = load_opened_model(request, what_if.opened);
    return evaluate(model.graph, what_if.evaluation.strategy,
                    {.extent = what_if.extent, .step = model.recipe.step})
        .trace.peak_bytes;
  } catch (const InputError&) {
    return std::nullopt;
  }
}

// The optimizer that the request has, where the plan fits with it.
std::optional<OptimizerThatFits> if_it_fits(const WhatIf& what_if, const ModelRequest& request,
                                            const std::string& text) {
  std::int64_t peak_bytes = 0;
  try {
    peak_bytes = peak_with(what_if, request);
  } catch (const InputError&) {
    return std::nullopt;  // not with this precision, or of a plain graph
  }
  if (peak_bytes > what_if.capacity_bytes) return std::nullopt;
  if (peak_bytes >= what_if.evaluation.trace.peak_bytes) return std::nullopt;
  return OptimizerThatFits{
      .text = text, .strategy = what_if.evaluation.name, .peak_bytes = peak_bytes};
}

}  // namespace

std::int64_t dim_value(const LoadedModel& model, std::string_view name) {
  for (const ResolvedDim& dim : model.dims) {
    if (dim.name == name && dim.value.kind == ValueKind::kInteger) return dim.value.integer;
  }
  return 0;
}

std::int64_t training_state_bytes(const Graph& graph, const TrainingStep& step) {
  constexpr std::string_view kWhat = "parameters, gradients and optimizer states";
  std::int64_t bytes = checked_add(parameter_bytes(graph), optimizer_state_bytes(graph), kWhat);
  bytes = checked_add(bytes, master_weight_bytes(graph), kWhat);
  bytes = checked_add(bytes, main_gradient_bytes(graph), kWhat);
  // No two gradients need be there at once.
  if (step.optimizer_in_backward || step.main_gradient_type) return bytes;
  return checked_add(bytes, gradient_bytes(graph), kWhat);
}

std::optional<SizeThatFits> larger_batch_that_fits(const WhatIf& what_if) {
  if (!is_worth_trying(what_if)) return std::nullopt;
  const std::int64_t batch = dim_value(what_if.model, "batch");
  const std::int64_t tokens = dim_value(what_if.model, "tokens");
  int evaluations_left = allowed_evaluations(what_if);
  Resizing resizing(what_if);
  const LargestSize found = largest_size_that_fits(
      {.fits = {.size = batch, .peak_bytes = what_if.evaluation.trace.peak_bytes},
       .most_size = std::max(batch, kMostBatch),
       .capacity_bytes = what_if.capacity_bytes},
      evaluations_left,
      [&](std::int64_t size) { return resizing.peak_bytes(what_if.evaluation, size, tokens); });
  if (found.size == batch) return std::nullopt;
  resizing.prove_last();
  return size_that_fits(what_if, found.size, tokens, found);
}

std::optional<SizeThatFits> smaller_size_that_fits(const WhatIf& what_if) {
  if (!is_worth_trying(what_if)) return std::nullopt;
  const std::int64_t batch = dim_value(what_if.model, "batch");
  const std::int64_t tokens = dim_value(what_if.model, "tokens");
  int evaluations_left = allowed_evaluations(what_if);
  Resizing resizing(what_if);
  const SizePeak resident = {
      .size = 0,
      .peak_bytes = training_state_bytes(what_if.model.graph, what_if.model.recipe.step)};
  const LargestSize found = largest_size_that_fits(
      {.fits = resident,
       .too_large = SizePeak{.size = batch, .peak_bytes = what_if.evaluation.trace.peak_bytes},
       .most_size = batch,
       .capacity_bytes = what_if.capacity_bytes},
      evaluations_left,
      [&](std::int64_t size) { return resizing.peak_bytes(what_if.evaluation, size, tokens); });
  if (found.size > 0) {
    return with_cheapest_strategy(what_if, resizing,
                                  size_that_fits(what_if, found.size, tokens, found));
  }
  if (tokens == 0) return std::nullopt;
  const auto fewer = fewer_tokens_that_fit(what_if, resizing, tokens, resident, evaluations_left);
  if (!fewer) return std::nullopt;
  return with_cheapest_strategy(what_if, resizing, *fewer);
}

std::vector<OptimizerThatFits> optimizers_that_fit(const WhatIf& what_if) {
  if (optimizer_state_bytes(what_if.model.graph) == 0) return {};
  std::vector<std::future<std::optional<OptimizerThatFits>>> running;
  const auto try_out = [&](ModelRequest request, std::string text) {
    running.push_back(std::async(std::launch::async,
                                 [&what_if, request = std::move(request), text = std::move(text)] {
                                   return if_it_fits(what_if, request, text);
                                 }));
  };
  for (const std::string_view name : {"adamw-8bit", "adafactor", "sgd"}) {
    ModelRequest request = what_if.request;
    request.optimizer = name;
    std::string text = fmt::format("--optimizer {}", name);
    if (request.step.optimizer_loop != OptimizerLoop::kFused) {
      request.step.optimizer_loop = OptimizerLoop::kFused;
      text += " --optimizer-loop fused";
    }
    if (request.optimizer_state_type && !takes_state_type(name)) {
      request.optimizer_state_type.reset();
      text += " without --optimizer-states";
    }
    if (name == "sgd") text += " (no states)";
    try_out(std::move(request), std::move(text));
  }
  ModelRequest in_backward = what_if.request;
  TrainingStep& step = in_backward.step;
  if (!step.optimizer_in_backward) {
    step.optimizer_in_backward = true;
    if (!contradiction_in(step)) try_out(std::move(in_backward), "--optimizer-in-backward");
  }
  std::vector<OptimizerThatFits> optimizers;
  for (auto& found : running) {
    if (std::optional<OptimizerThatFits> optimizer = found.get()) {
      optimizers.push_back(std::move(*optimizer));
    }
  }
  return optimizers;
}

std::vector<OptionsThatSave> options_that_save(const WhatIf& what_if) {
  const std::optional<Adapters>& adapters = what_if.request.adapters;
  if (!adapters || what_if.model.graph.ops.size() > kMostOps) return {};
  std::vector<OptionsThatSave> found;
  const auto try_out = [&](const ModelRequest& request, std::string text) {
    const std::optional<std::int64_t> peak_bytes = replanned_peak(what_if, request);
    const std::int64_t before_bytes = what_if.evaluation.trace.peak_bytes;
    if (!peak_bytes || *peak_bytes >= before_bytes) return;
    found.push_back({.text = std::move(text),
                     .saved_bytes = before_bytes - *peak_bytes,
                     .peak_bytes = *peak_bytes});
  };
  ModelRequest leaner = what_if.request;
  leaner.adapters->dropout = 0.0;
  leaner.adapters->data_type = DataType::kBFloat16;
  const std::string dropout = adapters->dropout > 0.0 ? "--lora-dropout 0 " : "";
  if (leaner.adapters != adapters) try_out(leaner, dropout + "--lora-dtype bf16");
  if (!what_if.request.quantization) {
    ModelRequest quantized = what_if.request;
    quantized.quantization = Quantization{};
    try_out(quantized, "--quantize nf4");
  }
  return found;
}

std::vector<GpuThatFits> gpus_that_fit(const std::vector<StrategyNumbers>& strategies,
                                       const std::vector<std::filesystem::path>& folders) {
  std::vector<GpuEntry> entries = list_gpus(folders);
  std::erase_if(entries, [](const GpuEntry& entry) { return !entry.has_capacity; });
  std::stable_sort(entries.begin(), entries.end(), [](const GpuEntry& a, const GpuEntry& b) {
    return capacity_bytes(a.device) < capacity_bytes(b.device);
  });
  std::vector<GpuThatFits> gpus;
  for (const GpuEntry& entry : entries) {
    if (gpus.size() == kMostGpus) break;
    const std::int64_t capacity = capacity_bytes(entry.device);
    const StrategyNumbers& best = strategies[recommended_strategy(strategies, capacity)];
    if (fits(best, capacity)) gpus.push_back({.id = entry.device.id, .strategy = best.name});
  }
  return gpus;
}

}  // namespace cairn
