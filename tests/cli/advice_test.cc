#include "cli/advice.h"

#include <doctest/doctest.h>

#include <algorithm>

namespace cairn {
namespace {

constexpr std::int64_t kGiB = std::int64_t{1} << 30;

// 40 GiB without checkpointing, 20 GiB with every layer at +24 %.
AdviceInput two_strategies(std::optional<std::int64_t> capacity_bytes) {
  return {.capacity_bytes = capacity_bytes,
          .strategies = {{"none", 40 * kGiB, 0.0},
                         {"every-layer", 20 * kGiB, 0.24},
                         {"uniform:4", 20 * kGiB, 0.31}},
          .training_state_bytes = 10 * kGiB,
          .batch = 4,
          .tokens = 2048};
}

bool has_line(const std::vector<std::string>& lines, const std::string& line) {
  return std::find(lines.begin(), lines.end(), line) != lines.end();
}

TEST_CASE("the cheapest strategy that fits is recommended, else the smallest peak") {
  const AdviceInput input = two_strategies(std::nullopt);
  CHECK(recommended_strategy(input.strategies, 40 * kGiB) == 0);      // exactly the capacity fits
  CHECK(recommended_strategy(input.strategies, 40 * kGiB - 1) == 1);  // a byte less does not
  CHECK(recommended_strategy(input.strategies, 10 * kGiB) == 1);      // of equal peaks the cheaper
  CHECK(recommended_strategy(input.strategies, std::nullopt) == 0);
}

TEST_CASE("none is recommended where it fits; ties go to fewer recomputes, then to the peak") {
  std::vector<StrategyNumbers> strategies = {{"none", 40 * kGiB, 0.0, 0},
                                             {"every-layer", 20 * kGiB, 0.0, 8},
                                             {"uniform:2", 22 * kGiB, 0.0, 6},
                                             {"sqrt", 21 * kGiB, 0.0, 6}};
  CHECK(recommended_strategy(strategies, 48 * kGiB) == 0);
  CHECK(recommended_strategy(strategies, 30 * kGiB) == 3);
}

TEST_CASE("a usual strategy that was not asked for is named where it fits") {
  AdviceInput input = two_strategies(24 * kGiB);
  input.strategies.resize(1);
  input.unlisted = StrategyNumbers{"every-layer", 20 * kGiB, 0.22, 8};
  CHECK(advice(input).front() ==
        "With every-layer checkpointing it would fit at +22 %: peak 20.0 GiB.");
}

TEST_CASE("everything fits without checkpointing: turn it off") {
  const AdviceInput input = two_strategies(48 * kGiB);
  CHECK(verdict(input) ==
        "Fits without checkpointing: the peak is 40.0 GiB of 48.0 GiB, which leaves 8.00 GiB.");
  CHECK(advice(input) ==
        std::vector<std::string>{
            "Everything fits without checkpointing: turn it off (every-layer costs +24 %)."});
}

TEST_CASE("it fits with checkpointing: no need to shorten samples") {
  const AdviceInput input = two_strategies(24 * kGiB);
  CHECK(verdict(input) ==
        "Fits with every-layer checkpointing at +24 %: the peak is 20.0 GiB of "
        "24.0 GiB, which leaves 4.00 GiB.");
  CHECK(advice(input) ==
        std::vector<std::string>{"Fits with every-layer checkpointing at +24 %: no need to shorten "
                                 "samples. A slower step is the price of checkpointing, not a "
                                 "fault."});
}

TEST_CASE("logits that are a fifth of the peak or more are named, smaller ones are not") {
  AdviceInput input = two_strategies(24 * kGiB);
  const std::string line =
      "Logits and loss are 20 % of the peak: checkpointing does not shrink them; a smaller batch "
      "would.";
  input.logits_and_loss_bytes = 4 * kGiB;  // of 20
  CHECK(has_line(advice(input), line));
  input.batch = 1;
  CHECK(has_line(advice(input),
                 "Logits and loss are 20 % of the peak: checkpointing does not shrink them; fewer "
                 "tokens would."));
  input.logits_and_loss_bytes = 4 * kGiB - 1;
  CHECK(advice(input).size() == 1);
}

TEST_CASE("freed memory is for a larger batch") {
  AdviceInput input = two_strategies(48 * kGiB);
  input.larger =
      SizeThatFits{.batch = 8, .tokens = 2048, .strategy = "none", .peak_bytes = 44 * kGiB};
  CHECK(has_line(advice(input),
                 "There is room for more: at least batch 8 fits, with no checkpointing (peak 44.0 "
                 "GiB)."));
  input.larger->is_largest = true;
  CHECK(has_line(advice(input),
                 "There is room for more: up to batch 8 fits, with no checkpointing (peak 44.0 "
                 "GiB)."));
}

TEST_CASE("states that pass the capacity: checkpointing cannot help, what would is named") {
  AdviceInput input = two_strategies(8 * kGiB);
  input.gpus = {{"l4", "every-layer"}, {"a10", "every-layer"}, {"a100-40", "none"}};
  CHECK(verdict(input) ==
        "Does not fit: the smallest peak, 20.0 GiB with every-layer "
        "checkpointing, is 12.0 GiB more than the 8.00 GiB for tensors.");
  CHECK(advice(input) ==
        std::vector<std::string>{
            "Parameters, gradients and optimizer states alone are 10.0 GiB, 2.00 GiB more than "
            "there is: checkpointing shrinks activations only, never these.",
            "Fits on one of these, the smallest that hold it: l4, a10 with every-layer "
            "checkpointing; a100-40 with no checkpointing."});
}

TEST_CASE("an optimizer is named only where it would fit") {
  AdviceInput input = two_strategies(16 * kGiB);
  const std::string states =
      "Parameters, gradients and optimizer states are 10.0 GiB and would fit: the activations do "
      "not.";
  CHECK(advice(input) ==
        std::vector<std::string>{states, "No GPU that Cairn knows holds it alone."});
  input.optimizers = {{"--optimizer sgd (no states)", "every-layer", 15 * kGiB}};
  CHECK(advice(input).at(1) ==
        "With --optimizer sgd (no states) it would fit, with every-layer "
        "checkpointing: peak 15.0 GiB.");
}

TEST_CASE("activations that do not fit: a smaller batch, then fewer tokens") {
  AdviceInput input = two_strategies(16 * kGiB);
  input.smaller =
      SizeThatFits{.batch = 2, .tokens = 2048, .strategy = "every-layer", .peak_bytes = 15 * kGiB};
  CHECK(advice(input).at(1) ==
        "With batch 2 it would fit, with every-layer checkpointing: peak 15.0 GiB.");
  input.smaller->batch = 1;
  input.smaller->tokens = 1024;
  CHECK(advice(input).at(1) ==
        "With batch 1 and 1,024 tokens it would fit, with every-layer "
        "checkpointing: peak 15.0 GiB.");
  input.batch = 1;
  CHECK(advice(input).at(1) ==
        "With 1,024 tokens it would fit, with every-layer checkpointing: peak 15.0 GiB.");
}

TEST_CASE("without a GPU there is no verdict, but a hint") {
  AdviceInput input = two_strategies(std::nullopt);
  input.gpus = {{"a100-40", "every-layer"}};
  CHECK(verdict(input).empty());
  CHECK(advice(input) ==
        std::vector<std::string>{
            "Name a GPU for a verdict: --gpu rtx4090, or a card's size, --gpu 24GiB.",
            "Fits on one of these, the smallest that hold it: a100-40 with every-layer "
            "checkpointing."});
}

}  // namespace
}  // namespace cairn
