#include "sim/validator_memory.h"

#include <algorithm>

#include "graph/checked.h"

namespace cairn {
namespace {

std::vector<Run> list_runs(const Schedule& schedule) {
  std::vector<Run> runs;
  runs.reserve(schedule.steps.size());
  for (std::size_t i = 0; i < schedule.steps.size(); ++i) {
    const Step& step = schedule.steps[i];
    if (step.kind == StepKind::kFree || step.kind == StepKind::kFreeGradient) continue;
    runs.push_back({.step = i, .kind = step.kind, .op = step.op, .group = step.group});
  }
  return runs;
}

std::int64_t resident_bytes(const Graph& graph) {
  std::int64_t bytes = 0;
  for (const Tensor& tensor : graph.tensors) {
    if (tensor.producer != kNoOp) continue;
    bytes = checked_add(bytes, tensor.bytes, "bytes of inputs and parameters");
    bytes = checked_add(bytes, tensor.optimizer_state_bytes, "bytes of optimizer states");
    bytes = checked_add(bytes, tensor.master_weight_bytes, "bytes of master weights");
    bytes = checked_add(bytes, tensor.main_gradient_bytes, "bytes of main gradients");
  }
  return bytes;
}

ValidationResult find_peak(const Graph& graph, const std::vector<Run>& runs,
                           const Account& account) {
  std::int64_t live = resident_bytes(graph);
  ValidationResult result{.peak_bytes = live};
  std::vector<std::int64_t> begin_bytes(runs.size(), 0);     // of the charges from this run on
  std::vector<std::int64_t> end_bytes(runs.size() + 1, 0);   // of the charges up to this run
  std::vector<std::int64_t> hook_bytes(runs.size() + 1, 0);  // of those that hooks end behind it
  for (const auto& [bytes, life, ends_in_hook] : account.charges) {
    begin_bytes[life.first] = checked_add(begin_bytes[life.first], bytes, "live bytes");
    std::int64_t& end = ends_in_hook ? hook_bytes[life.last] : end_bytes[life.last];
    end = checked_add(end, bytes, "live bytes");
  }
  std::vector<std::int64_t> sum_bytes(runs.size(), 0);
  for (const Charge& sum : account.sums) {
    sum_bytes[sum.life.first] = std::max(sum_bytes[sum.life.first], sum.bytes);
  }
  for (std::size_t run = 0; run < runs.size(); ++run) {
    live = checked_add(live, begin_bytes[run], "live bytes");
    const std::int64_t behind = live - end_bytes[run];
    const std::int64_t most = std::max(live, checked_add(behind, sum_bytes[run], "live bytes"));
    if (most > result.peak_bytes || run == 0) {
      result.peak_bytes = most;
      result.peak_step = runs[run].step;
    }
    live = behind - hook_bytes[run];
  }
  return result;
}

}  // namespace

ValidationResult check_memory(const Graph& graph, const Plan& plan,
                              const std::vector<RegionRule>& rules, const MicroBatch& micro_batch,
                              const Schedule& schedule) {
  const std::vector<Run> runs = list_runs(schedule);
  Account account;
  add_tensors(graph, plan, rules, runs, account);
  add_gradients(graph, runs, schedule.groups, micro_batch, account);

  ValidationResult result = check_frees(graph, schedule, runs, account.tensor_lives);
  if (result.fault != Fault::kNone) return result;
  result = check_gradient_frees(graph, schedule, runs, account.gradient_lives);
  if (result.fault != Fault::kNone) return result;
  return find_peak(graph, runs, account);
}

}  // namespace cairn
