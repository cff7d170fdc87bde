#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

// The sentences under the table of `cairn fit`: the verdict, and what to do. A pure function from
// numbers to text; cli/what_if.h finds the numbers that need further evaluations.

namespace cairn {

struct StrategyNumbers {
  std::string name = {};
  std::int64_t peak_bytes = 0;
  double slowdown = 0;  // 0.24: a step takes 24 % longer than with "none"
  std::int64_t recompute_count = 0;
};

// Another batch or sample length with which a strategy fits.
struct SizeThatFits {
  std::int64_t batch = 0;
  std::int64_t tokens = 0;  // 0: unknown, as for plain graphs
  std::string strategy = {};
  std::int64_t peak_bytes = 0;
  bool is_largest = false;  // else a larger one may fit too
};

// An optimizer that keeps fewer bytes of states, with which a strategy fits.
struct OptimizerThatFits {
  std::string text = {};  // "SGD without momentum (no states)"
  std::string strategy = {};
  std::int64_t peak_bytes = 0;
};

// Options that change the adapters, or the weights beside them, and make the peak smaller.
struct OptionsThatSave {
  std::string text = {};  // "--quantize nf4"
  std::int64_t saved_bytes = 0;
  std::int64_t peak_bytes = 0;  // then, with the recommended strategy
};

// Full training, LoRA or QLoRA of the same model.
struct WayToTrain {
  std::string name = {};                  // "QLoRA"
  std::string recipe = {};                // that --recipe takes for it; "": what was asked for
  std::string options = {};               // beside --recipe, where the model needs some
  std::int64_t trained_count = 0;         // parameters
  std::int64_t training_state_bytes = 0;  // parameters, gradients, optimizer states
  std::vector<StrategyNumbers> strategies = {};  // "none" first, each against its own "none"
};

struct GpuThatFits {
  std::string id = {};
  std::string strategy = {};  // the cheapest that fits there
};

struct AdviceInput {
  std::optional<std::int64_t> capacity_bytes = {};  // empty: no GPU was named
  std::vector<StrategyNumbers> strategies = {};     // "none" first
  std::int64_t training_state_bytes = 0;            // parameters, their gradients, optimizer states
  std::int64_t logits_and_loss_bytes = 0;           // at the peak of the recommended strategy
  std::vector<std::string> losses_with_the_head = {};  // choices of --loss that would shrink them
  std::int64_t batch = 0;                              // 0: unknown
  std::int64_t tokens = 0;
  std::optional<StrategyNumbers> unlisted = {};  // fits, and was not asked for
  std::optional<SizeThatFits> larger = {};
  std::optional<SizeThatFits> smaller = {};
  std::vector<OptimizerThatFits> optimizers = {};
  std::vector<OptionsThatSave> savings = {};
  std::vector<WayToTrain> ways = {};   // besides what was asked for
  std::vector<GpuThatFits> gpus = {};  // the smallest that fit, by capacity
};

// Less slowdown; of equal ones fewer recomputes, then the smaller peak. Graphs without costs have
// no slowdown at all.
bool is_cheaper(const StrategyNumbers& a, const StrategyNumbers& b);

// The cheapest strategy that fits, else the one with the smallest peak; without a capacity "none".
std::size_t recommended_strategy(const std::vector<StrategyNumbers>& strategies,
                                 std::optional<std::int64_t> capacity_bytes);

bool fits(const StrategyNumbers& strategy, std::optional<std::int64_t> capacity_bytes);

// One sentence; "" without a capacity.
std::string verdict(const AdviceInput& input);

// One sentence or two an entry, the most useful first.
std::vector<std::string> advice(const AdviceInput& input);

// "every-layer checkpointing", "no checkpointing".
std::string with_strategy(const std::string& name);

}  // namespace cairn
