#include "tests/executor/executed_steps.h"

#include <fmt/format.h>

#include <utility>

namespace cairn {

ExecutedSteps execute_two_steps(const Graph& graph, const Schedule& schedule, Device& device) {
  Executor executor(graph, schedule, device,
                    {.optimizer = {.rule = SteppedBy::kSgd}, .poisons_freed = true});
  ExecutedSteps result;
  for (int i = 0; i < 2; ++i) {
    std::map<TensorId, std::vector<std::uint8_t>> gradients;
    result.steps.push_back(executor.run_step([&](const GradientSeen& seen) {
      std::vector<std::uint8_t>& bytes = gradients[seen.parameter];
      bytes.insert(bytes.end(), seen.bytes.begin(), seen.bytes.end());
    }));
    result.gradients.push_back(std::move(gradients));
  }
  return result;
}

std::string bytes_difference(const Graph& graph, const Schedule& schedule, const Trace& trace,
                             const ExecutedStep& executed) {
  if (trace.steps.size() != executed.steps.size()) return "the steps are not as many";
  for (std::size_t i = 0; i < trace.steps.size(); ++i) {
    const StepTrace& expected = trace.steps[i];
    const MeasuredStep& found = executed.steps[i];
    if (expected.during_bytes == found.during_bytes && expected.after_bytes == found.after_bytes) {
      continue;
    }
    return fmt::format("{}: simulated {}/{}, measured {}/{}",
                       step_text(graph, schedule.steps[expected.step]), expected.during_bytes,
                       expected.after_bytes, found.during_bytes, found.after_bytes);
  }
  return "";
}

std::string gradient_difference(const Graph& graph, const ExecutedSteps& a,
                                const ExecutedSteps& b) {
  for (std::size_t step = 0; step < a.gradients.size(); ++step) {
    for (const auto& [id, bytes] : a.gradients[step]) {
      if (b.gradients[step].at(id) != bytes) {
        return fmt::format("step {}: the gradient of {}", step, graph.tensor(id).name);
      }
    }
  }
  return "";
}

}  // namespace cairn
