#include "cli/what_if.h"

#include <algorithm>
#include <bit>
#include <string>
#include <utility>

#include "graph/checked.h"
#include "graph/error.h"
#include "models/gpu_catalogue.h"

namespace cairn {
namespace {

constexpr int kMostEvaluations = 4;
// Beyond this many ops the advice is not worth the wait.
constexpr std::size_t kMostOps = 8000;
constexpr std::int64_t kMostBatch = std::int64_t{1} << 20;
constexpr std::size_t kMostGpus = 4;

// Evaluates other sizes, up to a number of times.
class Search {
 public:
  explicit Search(const WhatIf& what_if) : what_if_(what_if) {}

  // Whether the recommended strategy fits at that size.
  std::optional<SizeThatFits> size_that_fits(std::int64_t batch, std::int64_t tokens) {
    return with_strategy_at(what_if_.evaluation, batch, tokens);
  }

  // The first listed strategy that fits too: they are mostly listed from cheap to
  // dear.
  SizeThatFits cheaper(const SizeThatFits& size) {
    for (const Evaluation& evaluation : what_if_.evaluations) {
      if (evaluation.name == size.strategy) break;
      const auto found = with_strategy_at(evaluation, size.batch, size.tokens);
      if (found) return *found;
    }
    return size;
  }

  // Of the latest evaluation, whether it fitted or not; empty when there was none, because the
  // evaluations are used up or the size is too large for 64-bit numbers.
  std::optional<std::int64_t> last_peak_bytes() const { return last_peak_bytes_; }

 private:
  std::optional<SizeThatFits> with_strategy_at(const Evaluation& evaluation, std::int64_t batch,
                                               std::int64_t tokens) {
    last_peak_bytes_ = peak_bytes(evaluation.strategy, batch, tokens);
    if (!last_peak_bytes_ || *last_peak_bytes_ > what_if_.capacity_bytes) return std::nullopt;
    return SizeThatFits{.batch = batch,
                        .tokens = tokens,
                        .strategy = evaluation.name,
                        .peak_bytes = *last_peak_bytes_};
  }

  std::optional<std::int64_t> peak_bytes(const Strategy& strategy, std::int64_t batch,
                                         std::int64_t tokens) {
    if (evaluation_count_++ >= kMostEvaluations) return std::nullopt;
    ModelRequest request = what_if_.request;
    request.batch = batch;
    request.tokens = tokens;
    try {
      const LoadedModel model = load_model(request);
      return evaluate(model.graph, strategy, what_if_.extent, nullptr).trace.peak_bytes;
    } catch (const InputError&) {
      return std::nullopt;
    }
  }

  const WhatIf& what_if_;
  int evaluation_count_ = 0;
  std::optional<std::int64_t> last_peak_bytes_ = {};
};

struct BatchPeak {
  std::int64_t batch = 0;
  std::int64_t peak_bytes = 0;
};

// Where the straight line through two peaks reaches the capacity; 0 when it never does. A guess:
// what comes of it is evaluated.
std::int64_t batch_at_capacity(const BatchPeak& a, const BatchPeak& b, std::int64_t capacity) {
  const double slope =
      static_cast<double>(b.peak_bytes - a.peak_bytes) / static_cast<double>(b.batch - a.batch);
  if (slope <= 0) return 0;
  const double batch =
      static_cast<double>(a.batch) + static_cast<double>(capacity - a.peak_bytes) / slope;
  return static_cast<std::int64_t>(std::clamp(batch, 0.0, static_cast<double>(kMostBatch)));
}

std::int64_t floor_power_of_two(std::int64_t number) {
  return static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(number)));
}

bool is_worth_trying(const WhatIf& what_if) {
  return dim_value(what_if.model, "batch") > 0 && dim_value(what_if.model, "tokens") > 0 &&
         what_if.model.graph.ops.size() <= kMostOps;
}

std::int64_t trainable_parameter_count(const Graph& graph) {
  std::int64_t count = 0;
  for (const Tensor& tensor : graph.tensors) {
    if (tensor.role != TensorRole::kParameter || !tensor.has_gradient) continue;
    count = checked_add(count, element_count(tensor.shape, tensor.name), "parameters");
  }
  return count;
}

}  // namespace

std::int64_t dim_value(const LoadedModel& model, std::string_view name) {
  for (const auto& [dim, value] : model.dims) {
    if (dim == name && value.kind == ValueKind::kInteger) return value.integer;
  }
  return 0;
}

std::int64_t training_state_bytes(const Graph& graph) {
  std::int64_t bytes = checked_add(parameter_bytes(graph), optimizer_state_bytes(graph),
                                   "parameters and optimizer states");
  for (const Tensor& tensor : graph.tensors) {
    if (tensor.role != TensorRole::kParameter || !tensor.has_gradient) continue;
    bytes = checked_add(bytes, tensor.bytes, "parameters, gradients and optimizer states");
  }
  return bytes;
}

std::optional<SizeThatFits> larger_batch_that_fits(const WhatIf& what_if) {
  if (!is_worth_trying(what_if)) return std::nullopt;
  const std::int64_t batch = dim_value(what_if.model, "batch");
  const std::int64_t tokens = dim_value(what_if.model, "tokens");
  if (batch > kMostBatch / 2) return std::nullopt;
  Search search(what_if);
  std::optional<SizeThatFits> best = search.size_that_fits(2 * batch, tokens);
  if (!best) return std::nullopt;
  const std::int64_t guess =
      batch_at_capacity({batch, what_if.evaluation.trace.peak_bytes},
                        {best->batch, best->peak_bytes}, what_if.capacity_bytes);
  // The largest doubling of the batch that is not above the guess, and the next ones up or down.
  std::int64_t candidate = batch * floor_power_of_two(std::max<std::int64_t>(guess / batch, 1));
  if (candidate > best->batch) {
    std::optional<SizeThatFits> found = search.size_that_fits(candidate, tokens);
    const bool goes_up = found.has_value();
    for (candidate = goes_up ? 2 * candidate : candidate / 2; candidate > best->batch;
         candidate = goes_up ? 2 * candidate : candidate / 2) {
      const std::optional<SizeThatFits> next = search.size_that_fits(candidate, tokens);
      if (next) found = next;
      if (next.has_value() != goes_up || !search.last_peak_bytes()) break;
    }
    if (found) best = found;
  }
  return best;
}

std::optional<SizeThatFits> smaller_size_that_fits(const WhatIf& what_if) {
  if (!is_worth_trying(what_if)) return std::nullopt;
  const std::int64_t batch = dim_value(what_if.model, "batch");
  std::int64_t tokens = dim_value(what_if.model, "tokens");
  Search search(what_if);
  if (batch > 1) {
    const std::int64_t half = batch / 2;
    if (const auto found = search.size_that_fits(half, tokens)) return search.cheaper(*found);
    if (!search.last_peak_bytes()) return std::nullopt;
    const std::int64_t guess =
        batch_at_capacity({half, *search.last_peak_bytes()},
                          {batch, what_if.evaluation.trace.peak_bytes}, what_if.capacity_bytes);
    if (guess >= 1 && half > 1) {
      const std::int64_t candidate = floor_power_of_two(std::min(guess, half));
      const auto found = search.size_that_fits(candidate, tokens);
      if (found) return search.cheaper(*found);
    }
  }
  while (tokens > 1 && (search.last_peak_bytes() || batch == 1)) {
    tokens /= 2;
    if (const auto found = search.size_that_fits(1, tokens)) return search.cheaper(*found);
    if (!search.last_peak_bytes()) break;
  }
  return std::nullopt;
}

std::vector<OptimizerThatFits> optimizers_that_fit(const WhatIf& what_if) {
  const Graph& graph = what_if.model.graph;
  const std::int64_t states_bytes = optimizer_state_bytes(graph);
  if (states_bytes == 0) return {};
  const bool has_shapes = !what_if.model.family.empty();
  const std::int64_t count = has_shapes ? trainable_parameter_count(graph) : 0;
  // bitsandbytes: two states of a byte each, and two fp32 scales for each 256 parameters.
  const std::int64_t eight_bit_bytes = 2 * count + (count + 31) / 32;
  std::vector<OptimizerThatFits> optimizers;
  const auto add = [&](std::string text, std::int64_t bytes) {
    const std::int64_t peak_bytes = what_if.evaluation.trace.peak_bytes - states_bytes + bytes;
    if (bytes >= states_bytes || peak_bytes > what_if.capacity_bytes) return;
    optimizers.push_back(
        {.text = std::move(text), .strategy = what_if.evaluation.name, .peak_bytes = peak_bytes});
  };
  if (count > 0) add("8-bit AdamW (2 bytes a parameter of states)", eight_bit_bytes);
  add("--optimizer sgd (no states)", 0);
  return optimizers;
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
