// Solve times of chains: median of several runs, states, largest resident set, and the optimum.
// Random heterogeneous chains are made as in the published benchmark of this problem (activations
// of 1 to 8, saved states of 2 to 40 more, forward times of 1 to 10, workspaces of 0 to 6; a budget
// of 30 % of all saved states, in 500 slots), with other random numbers.

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "planner/chain_solver.h"

namespace {

using cairn::Chain;
using cairn::ChainBlock;

struct Problem {
  std::string name = {};
  Chain chain = {};
  std::int64_t budget_bytes = 0;
  bool is_whole_frontier = false;
};

// Layer i reads x_i and keeps `saved` with its output; x_0 is resident outside the budget.
ChainBlock layer(std::int64_t input, std::int64_t output, std::int64_t saved,
                 std::int64_t workspace, double time, bool is_input_resident) {
  const std::int64_t x = is_input_resident ? 0 : input;
  ChainBlock block;
  block.input_bytes = x;
  block.sweep_peak_bytes = x + output + workspace;
  block.held_bytes = block.inner_held_bytes = x + saved - output;
  block.forward_peak_bytes = block.inner_forward_peak_bytes = x + saved + workspace;
  block.backward_peak_bytes = block.inner_backward_peak_bytes =
      x + input + output + saved + workspace;
  block.last_peak_bytes = block.backward_peak_bytes;
  block.gradient_bytes = output;
  block.sweep_cost = block.last_cost = std::llround(time * 1e6);
  return block;
}

Problem random_problem(int layer_count) {
  constexpr std::int64_t kSlots = 500;
  std::mt19937_64 random(1);
  const auto number = [&](int least, int most) {
    return std::uniform_int_distribution<int>(least, most)(random);
  };
  std::vector<double> inputs = {static_cast<double>(number(1, 8))};
  std::vector<double> saved;
  std::vector<double> workspaces;
  std::vector<double> times;
  double saved_sum = 0;
  for (int i = 0; i < layer_count; ++i) {
    inputs.push_back(number(1, 8));
    saved.push_back(inputs.back() + number(2, 40));
    workspaces.push_back(number(0, 6));
    times.push_back(std::uniform_real_distribution<double>(1, 10)(random));
    saved_sum += saved.back();
  }
  const double unit = 0.3 * saved_sum / static_cast<double>(kSlots);
  const auto slots = [&](double size) { return static_cast<std::int64_t>(std::ceil(size / unit)); };
  Problem problem = {.name = fmt::format("random, {} layers", layer_count),
                     .budget_bytes = kSlots - slots(inputs[0])};
  for (std::size_t i = 0; i < times.size(); ++i) {
    problem.chain.blocks.push_back(layer(slots(inputs[i]), slots(inputs[i + 1]), slots(saved[i]),
                                         slots(workspaces[i]), times[i], i == 0));
  }
  const std::int64_t last = slots(inputs.back());
  problem.chain.blocks.push_back(layer(last, 0, 0, 0, 0, false));  // a loss that costs nothing
  return problem;
}

// An embedding, 250 layers of two kinds and a head; a hundred options.
Problem transformer_problem() {
  constexpr std::int64_t kMebibyte = std::int64_t{1} << 20;
  constexpr std::int64_t kInput = 64 * kMebibyte;
  Problem problem = {.name = "transformer, 252 blocks", .is_whole_frontier = true};
  for (int i = 0; i < 252; ++i) {
    const int kind = i % 2;
    std::int64_t saved = kInput + 600 * kMebibyte + kind * (137 * kMebibyte + 12'352);
    if (i == 0) saved = kInput + 4 * kMebibyte;
    if (i == 251) saved = 4096 * kMebibyte;
    ChainBlock block = layer(kInput, i == 251 ? 4 : kInput, saved, 200 * kMebibyte,
                             0.010 + 0.001234 * kind, i == 0);
    block.parameter_gradient_bytes = 400 * kMebibyte + kind * 4096;
    problem.chain.blocks.push_back(block);
  }
  for (int i = 1; i <= 100; ++i) {
    const ChainBlock& block = problem.chain.blocks[static_cast<std::size_t>(i)];
    problem.chain.options.push_back({.begin = i,
                                     .end = i + 1,
                                     .held_bytes = kInput + (block.held_bytes - kInput) / 2,
                                     .forward_peak_bytes = block.forward_peak_bytes,
                                     .backward_peak_bytes = block.backward_peak_bytes,
                                     .extra_cost = block.sweep_cost / 4});
  }
  problem.chain.base_bytes = 20 * 1024 * kMebibyte;
  problem.budget_bytes = 400 * 1024 * kMebibyte;
  return problem;
}

void measure(const Problem& problem, int run_count) {
  std::vector<double> wall_ms;
  std::int64_t cost = 0;
  std::int64_t bound = 0;
  cairn::ChainStatistics statistics;
  for (int run = 0; run < run_count; ++run) {
    const auto begin = std::chrono::steady_clock::now();
    const cairn::ChainSolution solution =
        cairn::solve_chain(problem.chain, problem.budget_bytes,
                           {.slot_limit = problem.is_whole_frontier ? 0 : 500,
                            .is_whole_frontier = problem.is_whole_frontier});
    const auto end = std::chrono::steady_clock::now();
    wall_ms.push_back(std::chrono::duration<double, std::milli>(end - begin).count());
    const cairn::ChainPoints& points = solution.points();
    const cairn::ChainPoint& point = points[points.size() / 2];
    cost = problem.is_whole_frontier ? point.extra_cost : points.back().extra_cost;
    bound =
        solution.lower_bound(problem.is_whole_frontier ? point.need_bytes : problem.budget_bytes);
    statistics = solution.statistics();
  }
  std::sort(wall_ms.begin(), wall_ms.end());
  rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);
  fmt::print(
      "{:<24} {:>8.1f} ms ({:.1f} to {:.1f}), {:>8} states, {:>4} MiB, extra {:.6f}, bound "
      "{:.6f}{}\n",
      problem.name, wall_ms[wall_ms.size() / 2], wall_ms.front(), wall_ms.back(),
      statistics.nested.state_count, usage.ru_maxrss / 1024, static_cast<double>(cost) * 1e-6,
      static_cast<double>(bound) * 1e-6,
      problem.is_whole_frontier ? " at the middle of the whole frontier" : "");
}

}  // namespace

int main() {
  measure(random_problem(48), 25);
  measure(random_problem(100), 25);
  measure(transformer_problem(), 9);
  measure(random_problem(339), 9);
  measure(random_problem(1000), 3);
  return 0;
}
