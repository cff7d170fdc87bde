// The whole frontier of a transformer's plans, from its graph: cut into blocks, measured in the
// simulator, keep lists found, and the chain solved for every budget.

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <string>
#include <vector>

#include "models/gpu_catalogue.h"
#include "models/load_model.h"
#include "planner/chain_plan.h"

namespace {

using Clock = std::chrono::steady_clock;

double milliseconds(Clock::time_point since) {
  return std::chrono::duration<double, std::milli>(Clock::now() - since).count();
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

void run(const std::string& name, std::int64_t tokens) {
  constexpr int kRuns = 7;
  const cairn::LoadedModel model = cairn::load_model({.model = name, .tokens = tokens});
  const cairn::DeviceSpec gpu = cairn::find_gpu("h100-sxm", {});
  cairn::PlanRequest request;
  request.strategy.algorithm = cairn::Algorithm::kChain;
  request.setting = {.extent = cairn::Extent::kPrefix, .step = model.recipe.step, .device = &gpu};
  request.target = cairn::Target::kTorch;
  std::vector<double> problem_ms;
  std::vector<double> all_ms;
  std::size_t point_count = 0;
  std::size_t block_count = 0;
  std::size_t option_count = 0;
  for (int i = 0; i < kRuns; ++i) {
    Clock::time_point begin = Clock::now();
    const cairn::ChainProblem problem = cairn::chain_problem(model.graph, request, {});
    problem_ms.push_back(milliseconds(begin));
    begin = Clock::now();
    const cairn::ChainPlans plans(model.graph, request);
    all_ms.push_back(milliseconds(begin));
    point_count = plans.list().expected.size();
    block_count = problem.blocks.size();
    option_count = problem.chain.options.size();
  }
  fmt::print(
      "{:16} {:7} tokens  {:7.1f} ms, of which blocks and keep lists {:6.1f} ms; "
      "{} blocks, {} choices, {} budgets\n",
      name, tokens, median(all_ms), median(problem_ms), block_count, option_count, point_count);
}

}  // namespace

int main() {
  run("gpt2-xl", 1024);
  run("llama-3.1-8b", 8192);
  run("llama-3.1-405b", 65536);
}
