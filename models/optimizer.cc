#include "models/optimizer.h"

#include <fmt/format.h>

#include <array>

#include "graph/error.h"

namespace cairn {
namespace {

struct OptimizerRow {
  std::string_view name = {};
  OptimizerRule fused = {};
  std::optional<OptimizerRule> foreach = {};
  OptimizerRule for_loop = {};
};

// Adam's square roots: foreach has those of all parameters at once; the loop divides them into a
// second tensor, the denominator, which lasts until the next one's takes its name. Measured
// (tests/oracle/optimizer_test.py). SGD works in place.
constexpr OptimizerRule kAdamFused = {.state_count = 2};
constexpr OptimizerRule kAdamForeach = {.state_count = 2, .temporary_count = 1};
constexpr OptimizerRule kAdamForLoop = {.state_count = 2, .temporary_count = 2, .carried_count = 1};
constexpr OptimizerRule kSgd = {};
constexpr OptimizerRule kSgdMomentum = {.state_count = 1};

// torch.optim of torch 2.13. Lion is not in it: fused as in bitsandbytes, and for-loop as in
// lion-pytorch, whose update is a clone and a sum.
constexpr std::array<OptimizerRow, 5> kOptimizers = {{
    {"adamw", kAdamFused, kAdamForeach, kAdamForLoop},
    {"adam", kAdamFused, kAdamForeach, kAdamForLoop},
    {"sgd", kSgd, kSgd, kSgd},
    {"sgd-momentum", kSgdMomentum, kSgdMomentum, kSgdMomentum},
    {"lion", {.state_count = 1}, std::nullopt, {.state_count = 1, .temporary_count = 2}},
}};

constexpr std::array kLoops = {OptimizerLoop::kFused, OptimizerLoop::kForeach,
                               OptimizerLoop::kForLoop};

const OptimizerRow& optimizer_row(std::string_view name) {
  for (const OptimizerRow& row : kOptimizers) {
    if (row.name == name) return row;
  }
  throw InputError(fmt::format("unknown optimizer '{}': expected one of {}{}", name,
                               join_names(optimizer_names()),
                               did_you_mean(name, optimizer_names())));
}

}  // namespace

OptimizerRule optimizer_rule(std::string_view name, OptimizerLoop loop) {
  const OptimizerRow& row = optimizer_row(name);
  switch (loop) {
    case OptimizerLoop::kFused:
      return row.fused;
    case OptimizerLoop::kForLoop:
      return row.for_loop;
    case OptimizerLoop::kForeach:
      if (row.foreach) return *row.foreach;
      throw InputError(fmt::format(
          "--optimizer {} has no foreach loop: expected --optimizer-loop fused or for-loop", name));
  }
  CAIRN_CHECK(false, "unknown optimizer loop");
}

OptimizerLoop parse_optimizer_loop(std::string_view text) {
  for (const OptimizerLoop loop : kLoops) {
    if (text == optimizer_loop_name(loop)) return loop;
  }
  const std::vector<std::string> names = optimizer_loop_names();
  throw InputError(fmt::format("--optimizer-loop: expected one of {}, found '{}'{}",
                               join_names(names), text, did_you_mean(text, names)));
}

std::vector<std::string> optimizer_loop_names() {
  std::vector<std::string> names;
  for (const OptimizerLoop loop : kLoops) names.emplace_back(optimizer_loop_name(loop));
  return names;
}

std::vector<std::string> optimizer_names() {
  std::vector<std::string> names;
  for (const OptimizerRow& row : kOptimizers) names.emplace_back(row.name);
  return names;
}

}  // namespace cairn
