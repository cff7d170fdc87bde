#include "cli/advice.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <tuple>
#include <utility>

#include "cli/units.h"
#include "graph/error.h"

namespace cairn {
namespace {

// Logits are worth a word from a fifth of the peak on.
constexpr std::int64_t kLogitsShare = 5;

// Options for adapters are from a hundredth on.
constexpr std::int64_t kSavingsShare = 100;

// A slowdown in this range is what full checkpointing usually costs.
constexpr double kUsualSlowdownBegin = 0.15;
constexpr double kUsualSlowdownEnd = 0.40;

bool is_none(const StrategyNumbers& strategy) { return strategy.name == "none"; }

// The strategy to measure "turn it off" against: every-layer, else the dearest.
const StrategyNumbers* usual_checkpointing(const std::vector<StrategyNumbers>& strategies) {
  const StrategyNumbers* usual = nullptr;
  for (const StrategyNumbers& strategy : strategies) {
    if (is_none(strategy)) continue;
    if (strategy.name == "every-layer") return &strategy;
    if (usual == nullptr || strategy.slowdown > usual->slowdown) usual = &strategy;
  }
  return usual;
}

// What differs from the size asked for: "batch 1 and 1,024 tokens".
std::string size_text(const SizeThatFits& size, const AdviceInput& input) {
  std::string text;
  if (size.batch != input.batch) text = fmt::format("batch {}", grouped_text(size.batch));
  if (size.tokens != input.tokens) {
    if (!text.empty()) text += " and ";
    text += fmt::format("{} tokens", grouped_text(size.tokens));
  }
  return text;
}

void advise_on_checkpointing(const AdviceInput& input, const StrategyNumbers& best,
                             std::vector<std::string>& lines) {
  if (is_none(best)) {
    const StrategyNumbers* const usual = usual_checkpointing(input.strategies);
    if (usual == nullptr) return;
    lines.push_back(fmt::format("Everything fits without checkpointing: turn it off ({} costs {}).",
                                usual->name, increase_text(usual->slowdown)));
    return;
  }
  std::string line = fmt::format("Fits with {} at {}: no need to shorten samples.",
                                 with_strategy(best.name), increase_text(best.slowdown));
  if (best.slowdown >= kUsualSlowdownBegin && best.slowdown <= kUsualSlowdownEnd) {
    line += " A slower step is the price of checkpointing, not a fault.";
  }
  lines.push_back(std::move(line));
}

void advise_on_training_state(const AdviceInput& input, std::vector<std::string>& lines) {
  if (input.training_state_bytes <= *input.capacity_bytes) {
    lines.push_back(fmt::format(
        "Parameters, gradients and optimizer states are {} and would fit: the activations do not.",
        bytes_text(input.training_state_bytes)));
    return;
  }
  lines.push_back(
      fmt::format("Parameters, gradients and optimizer states alone are {}, {} more than there is: "
                  "checkpointing shrinks activations only, never these.",
                  bytes_text(input.training_state_bytes),
                  bytes_text(input.training_state_bytes - *input.capacity_bytes)));
}

// "QLoRA (--recipe qlora) fits with every-layer checkpointing at +25 %, with 3.1 GiB to spare."
void advise_on_ways(const AdviceInput& input, std::vector<std::string>& lines) {
  for (const WayToTrain& way : input.ways) {
    const StrategyNumbers& best =
        way.strategies[recommended_strategy(way.strategies, input.capacity_bytes)];
    if (!fits(best, input.capacity_bytes)) continue;
    lines.push_back(
        fmt::format("{} (--recipe {}{}) fits with {}{}, with {} to spare.", way.name, way.recipe,
                    way.options.empty() ? "" : " " + way.options, with_strategy(best.name),
                    is_none(best) ? "" : fmt::format(" at {}", increase_text(best.slowdown)),
                    bytes_text(*input.capacity_bytes - best.peak_bytes)));
  }
}

void advise_on_optimizers(const AdviceInput& input, std::vector<std::string>& lines) {
  for (const OptimizerThatFits& optimizer : input.optimizers) {
    lines.push_back(fmt::format("With {} it would fit, with {}: peak {}.", optimizer.text,
                                with_strategy(optimizer.strategy),
                                bytes_text(optimizer.peak_bytes)));
  }
}

void advise_on_adapters(const AdviceInput& input, const StrategyNumbers& best,
                        std::vector<std::string>& lines) {
  for (const OptionsThatSave& options : input.savings) {
    if (options.saved_bytes < best.peak_bytes / kSavingsShare) continue;
    const bool turns =
        !fits(best, input.capacity_bytes) && options.peak_bytes <= *input.capacity_bytes;
    lines.push_back(fmt::format("{}: {} less, a peak of {}{}.", options.text,
                                bytes_text(options.saved_bytes), bytes_text(options.peak_bytes),
                                turns ? ", which fits" : ""));
  }
}

// Neighbours with the same strategy are named together.
void advise_on_gpus(const AdviceInput& input, std::vector<std::string>& lines) {
  if (input.gpus.empty()) {
    lines.emplace_back("No GPU that Cairn knows holds it alone.");
    return;
  }
  std::string groups;
  for (std::size_t i = 0; i < input.gpus.size();) {
    std::vector<std::string> ids;
    std::size_t end = i;
    while (end < input.gpus.size() && input.gpus[end].strategy == input.gpus[i].strategy) {
      ids.push_back(input.gpus[end++].id);
    }
    if (!groups.empty()) groups += "; ";
    groups += fmt::format("{} with {}", join_names(ids), with_strategy(input.gpus[i].strategy));
    i = end;
  }
  lines.push_back(fmt::format("Fits on one of these, the smallest that hold it: {}.", groups));
}

void advise_on_logits(const AdviceInput& input, const StrategyNumbers& best,
                      std::vector<std::string>& lines) {
  if (input.logits_and_loss_bytes < best.peak_bytes / kLogitsShare) return;
  if (input.logits_and_loss_bytes == 0) return;
  std::string smaller =
      input.batch != 1 ? "a smaller batch" : (input.tokens > 0 ? "fewer tokens" : "smaller images");
  for (std::size_t i = 0; i < input.losses_with_the_head.size(); ++i) {
    smaller += fmt::format("{}{}", i == 0 ? " or a chunked loss (--loss " : ", ",
                           input.losses_with_the_head[i]);
  }
  if (!input.losses_with_the_head.empty()) smaller += ")";
  lines.push_back(fmt::format(
      "Logits and loss are {} of the peak: checkpointing does not shrink them; {} would.",
      share_text(input.logits_and_loss_bytes, best.peak_bytes), smaller));
}

void advise_on_size(const AdviceInput& input, std::vector<std::string>& lines) {
  if (input.larger) {
    lines.push_back(fmt::format(
        "There is room for more: {} {} fits, with {} (peak {}).",
        input.larger->is_largest ? "up to" : "at least", size_text(*input.larger, input),
        with_strategy(input.larger->strategy), bytes_text(input.larger->peak_bytes)));
  }
  if (input.smaller) {
    lines.push_back(
        fmt::format("With {} it would fit, with {}: peak {}.", size_text(*input.smaller, input),
                    with_strategy(input.smaller->strategy), bytes_text(input.smaller->peak_bytes)));
  }
}

}  // namespace

std::string with_strategy(const std::string& name) {
  return name == "none" ? "no checkpointing" : name + " checkpointing";
}

bool fits(const StrategyNumbers& strategy, std::optional<std::int64_t> capacity_bytes) {
  return !capacity_bytes || strategy.peak_bytes <= *capacity_bytes;
}

bool is_cheaper(const StrategyNumbers& a, const StrategyNumbers& b) {
  return std::tuple(a.slowdown, a.recompute_count, a.peak_bytes) <
         std::tuple(b.slowdown, b.recompute_count, b.peak_bytes);
}

std::size_t recommended_strategy(const std::vector<StrategyNumbers>& strategies,
                                 std::optional<std::int64_t> capacity_bytes) {
  CAIRN_CHECK(!strategies.empty(), "there is always the strategy none");
  if (is_none(strategies.front()) && fits(strategies.front(), capacity_bytes)) return 0;
  const auto is_better = [&](const StrategyNumbers& a, const StrategyNumbers& b) {
    const bool a_fits = fits(a, capacity_bytes);
    if (a_fits != fits(b, capacity_bytes)) return a_fits;
    if (a_fits) return is_cheaper(a, b);
    return std::pair(a.peak_bytes, a.slowdown) < std::pair(b.peak_bytes, b.slowdown);
  };
  return static_cast<std::size_t>(
      std::min_element(strategies.begin(), strategies.end(), is_better) - strategies.begin());
}

std::string verdict(const AdviceInput& input) {
  if (!input.capacity_bytes) return {};
  const StrategyNumbers& best =
      input.strategies[recommended_strategy(input.strategies, input.capacity_bytes)];
  const std::int64_t room_bytes = *input.capacity_bytes - best.peak_bytes;
  if (room_bytes < 0) {
    return fmt::format(
        "Does not fit: the smallest peak, {} with {}, is {} more than the {} for tensors.",
        bytes_text(best.peak_bytes), with_strategy(best.name), bytes_text(-room_bytes),
        bytes_text(*input.capacity_bytes));
  }
  if (is_none(best)) {
    return fmt::format("Fits without checkpointing: the peak is {} of {}, which leaves {}.",
                       bytes_text(best.peak_bytes), bytes_text(*input.capacity_bytes),
                       bytes_text(room_bytes));
  }
  return fmt::format("Fits with {} at {}: the peak is {} of {}, which leaves {}.",
                     with_strategy(best.name), increase_text(best.slowdown),
                     bytes_text(best.peak_bytes), bytes_text(*input.capacity_bytes),
                     bytes_text(room_bytes));
}

std::vector<std::string> advice(const AdviceInput& input) {
  const StrategyNumbers& best =
      input.strategies[recommended_strategy(input.strategies, input.capacity_bytes)];
  std::vector<std::string> lines;
  if (!input.capacity_bytes) {
    lines.emplace_back("Name a GPU for a verdict: --gpu rtx4090, or a card's size, --gpu 24GiB.");
    advise_on_gpus(input, lines);
    advise_on_logits(input, best, lines);
    return lines;
  }
  if (fits(best, input.capacity_bytes)) {
    advise_on_checkpointing(input, best, lines);
    advise_on_adapters(input, best, lines);
    advise_on_logits(input, best, lines);
    advise_on_size(input, lines);
    return lines;
  }
  if (input.unlisted) {
    lines.push_back(fmt::format(
        "With {} it would fit at {}: peak {}.", with_strategy(input.unlisted->name),
        increase_text(input.unlisted->slowdown), bytes_text(input.unlisted->peak_bytes)));
  } else {
    advise_on_training_state(input, lines);
  }
  advise_on_ways(input, lines);
  advise_on_adapters(input, best, lines);
  advise_on_optimizers(input, lines);
  advise_on_size(input, lines);
  advise_on_logits(input, best, lines);
  advise_on_gpus(input, lines);
  return lines;
}

}  // namespace cairn
