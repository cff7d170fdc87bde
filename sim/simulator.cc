#include "sim/simulator.h"

#include <fmt/format.h>

#include <algorithm>

#include "graph/checked.h"
#include "graph/region_tree.h"
#include "sim/replay.h"

namespace cairn {
namespace {

// Held at the edge of a region: what regions read from outside, and what their keep lists name.
std::vector<bool> checkpoint_flags(const Graph& graph, const Plan& plan) {
  std::vector<bool> is_checkpoint(graph.tensors.size(), false);
  for (const std::vector<TensorId>& inputs : region_inputs(graph, flatten_regions(graph, plan))) {
    for (const TensorId tensor : inputs) is_checkpoint[index(tensor)] = true;
  }
  for (const Region& region : plan.regions) {
    for (const TensorId tensor : region.keep) is_checkpoint[index(tensor)] = true;
  }
  return is_checkpoint;
}

MemoryCategory category_of(const Tensor& tensor, bool is_checkpoint) {
  if (tensor.role == TensorRole::kParameter) return MemoryCategory::kParameters;
  if (tensor.role == TensorRole::kInput) return MemoryCategory::kInputs;
  if (tensor.is_logits) return MemoryCategory::kLogitsAndLoss;
  return is_checkpoint ? MemoryCategory::kCheckpoints : MemoryCategory::kSavedActivations;
}

MemoryCategory gradient_category_of(const Tensor& tensor) {
  if (tensor.role == TensorRole::kParameter) return MemoryCategory::kGradients;
  if (tensor.is_logits) return MemoryCategory::kLogitsAndLoss;
  return MemoryCategory::kActivationGradients;
}

std::vector<LiveItem> live_tensors(const Graph& graph, const Plan& plan, const Replay& replay) {
  const std::vector<bool> is_checkpoint = checkpoint_flags(graph, plan);
  std::vector<LiveItem> items;
  std::vector<std::int32_t> listed;
  const auto add = [&](std::int32_t allocation, const std::string& name, MemoryCategory category) {
    if (allocation < 0) return;
    if (replay.allocation(allocation).reference_count > 1) {
      if (std::find(listed.begin(), listed.end(), allocation) != listed.end()) return;
      listed.push_back(allocation);
    }
    if (replay.allocation(allocation).bytes == 0) return;
    items.push_back({name, category, replay.allocation(allocation).bytes});
  };
  std::int64_t optimizer_bytes = 0;
  for (std::size_t i = 0; i < graph.tensors.size(); ++i) {
    const auto id = static_cast<TensorId>(i);
    const Tensor& tensor = graph.tensors[i];
    add(replay.allocation_of(id), tensor.name, category_of(tensor, is_checkpoint[i]));
    add(replay.allocation_of_gradient(id), "gradient of " + tensor.name,
        gradient_category_of(tensor));
    optimizer_bytes += tensor.optimizer_state_bytes;
  }
  if (optimizer_bytes > 0) {
    items.push_back({"optimizer states", MemoryCategory::kOptimizer, optimizer_bytes});
  }
  return items;
}

void add_transients(const Graph& graph, const Op& op, const std::vector<Transient>& transients,
                    std::vector<LiveItem>& items) {
  for (const Transient& transient : transients) {
    if (transient.bytes == 0) continue;
    LiveItem item{.bytes = transient.bytes};
    switch (transient.kind) {
      case Transient::Kind::kWorkspace:
        item.name = "workspace of " + op.name;
        item.category = MemoryCategory::kWorkspace;
        break;
      case Transient::Kind::kDuplicate:
        item.name = "second copy of " + graph.tensor(transient.tensor).name;
        item.category = category_of(graph.tensor(transient.tensor), false);
        break;
      case Transient::Kind::kContribution:
        item.name = "contribution to the gradient of " + graph.tensor(transient.tensor).name;
        item.category = gradient_category_of(graph.tensor(transient.tensor));
        break;
      case Transient::Kind::kSum:
        item.name =
            "what the gradient of " + graph.tensor(transient.tensor).name + " is the sum of";
        item.category = gradient_category_of(graph.tensor(transient.tensor));
        break;
    }
    items.push_back(std::move(item));
  }
}

// Replays up to the peak and lists what is live there.
void describe_peak(const Graph& graph, const Plan& plan, const Schedule& schedule, Trace& trace) {
  const std::size_t peak_step = trace.steps[trace.peak_entry].step;
  Replay replay(graph, schedule);
  for (std::size_t position = 0; position < peak_step;) {
    replay.begin_step(position);
    position = replay.end_step(position);
  }
  replay.begin_step(peak_step);
  std::vector<Transient> transients = replay.transients();
  if (replay.during_bytes() < trace.peak_bytes) {  // reached by a sum, behind the frees
    replay.end_step(peak_step);
    transients = {replay.sum()};
  }
  trace.live_at_peak = live_tensors(graph, plan, replay);
  add_transients(graph, graph.op(schedule.steps[peak_step].op), transients, trace.live_at_peak);
  for (const LiveItem& item : trace.live_at_peak) {
    trace.peak_breakdown[static_cast<std::size_t>(item.category)] += item.bytes;
  }
  std::stable_sort(trace.live_at_peak.begin(), trace.live_at_peak.end(),
                   [](const LiveItem& a, const LiveItem& b) { return a.bytes > b.bytes; });
}

}  // namespace

Trace simulate(const Graph& graph, const Plan& plan, const Schedule& schedule) {
  Trace trace;
  Replay replay(graph, schedule);
  trace.resident_bytes = replay.live_bytes();
  for (std::size_t position = 0; position < schedule.steps.size();) {
    const std::size_t step = position;
    replay.begin_step(step);
    std::int64_t during_bytes = replay.during_bytes();
    position = replay.end_step(step);
    during_bytes =
        std::max(during_bytes, checked_add(replay.live_bytes(), replay.sum().bytes, "live bytes"));
    if (trace.steps.empty() || during_bytes > trace.peak_bytes) {
      trace.peak_bytes = during_bytes;
      trace.peak_entry = trace.steps.size();
    }
    trace.steps.push_back(
        {.step = step, .during_bytes = during_bytes, .after_bytes = replay.live_bytes()});
    if (schedule.steps[step].kind == StepKind::kRecompute) {
      ++trace.recompute_count;
      trace.recompute_flops = checked_add(
          trace.recompute_flops, graph.op(schedule.steps[step].op).forward.flops, "extra FLOPs");
    }
  }
  describe_peak(graph, plan, schedule, trace);
  return trace;
}

}  // namespace cairn
