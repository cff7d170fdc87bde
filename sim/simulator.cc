#include "sim/simulator.h"

#include <fmt/format.h>

#include <algorithm>

#include "graph/checked.h"
#include "graph/error.h"
#include "graph/region_tree.h"
#include "graph/training_step.h"
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
  const auto add = [&](std::int32_t allocation, const std::string& name, MemoryCategory category,
                       LiveKind kind, TensorId tensor) {
    if (allocation < 0) return;
    if (replay.allocation(allocation).reference_count > 1) {
      if (std::find(listed.begin(), listed.end(), allocation) != listed.end()) return;
      listed.push_back(allocation);
    }
    if (replay.allocation(allocation).bytes == 0) return;
    items.push_back({name, category, replay.allocation(allocation).bytes, kind, tensor});
  };
  std::int64_t master_bytes = 0;
  std::int64_t main_gradient_bytes = 0;
  for (std::size_t i = 0; i < graph.tensors.size(); ++i) {
    const auto id = static_cast<TensorId>(i);
    const Tensor& tensor = graph.tensors[i];
    add(replay.allocation_of(id), tensor.name, category_of(tensor, is_checkpoint[i]),
        LiveKind::kTensor, id);
    add(replay.allocation_of_gradient(id), "gradient of " + tensor.name,
        gradient_category_of(tensor), LiveKind::kGradient, id);
    add(replay.allocation_of_gathered(id), "contributions to the gradient of " + tensor.name,
        gradient_category_of(tensor), LiveKind::kContribution, id);
    master_bytes += tensor.master_weight_bytes;
    main_gradient_bytes += tensor.main_gradient_bytes;
  }
  if (replay.optimizer_state_bytes() > 0) {
    items.push_back({"optimizer states", MemoryCategory::kOptimizer, replay.optimizer_state_bytes(),
                     LiveKind::kOptimizerStates});
  }
  if (master_bytes > 0) {
    items.push_back(
        {"master weights", MemoryCategory::kOptimizer, master_bytes, LiveKind::kMasterWeights});
  }
  if (main_gradient_bytes > 0) {
    items.push_back({"main gradients", MemoryCategory::kGradients, main_gradient_bytes,
                     LiveKind::kMainGradients});
  }
  return items;
}

void add_transients(const Graph& graph, const Step& step, const std::vector<Transient>& transients,
                    std::vector<LiveItem>& items) {
  for (const Transient& transient : transients) {
    if (transient.bytes == 0) continue;
    LiveItem item{
        .bytes = transient.bytes, .kind = LiveKind::kWorkspace, .tensor = transient.tensor};
    switch (transient.kind) {
      case Transient::Kind::kWorkspace:
        item.name = "workspace of " + graph.op(step.op).name;
        item.category = MemoryCategory::kWorkspace;
        break;
      case Transient::Kind::kDuplicate:
        item.kind = LiveKind::kDuplicate;
        item.name = "second copy of " + graph.tensor(transient.tensor).name;
        item.category = category_of(graph.tensor(transient.tensor), false);
        break;
      case Transient::Kind::kContribution:
        item.kind = LiveKind::kContribution;
        item.name = "contribution to the gradient of " + graph.tensor(transient.tensor).name;
        item.category = gradient_category_of(graph.tensor(transient.tensor));
        break;
      case Transient::Kind::kSum:
        item.kind = LiveKind::kContribution;
        item.name =
            "what the gradient of " + graph.tensor(transient.tensor).name + " is the sum of";
        item.category = gradient_category_of(graph.tensor(transient.tensor));
        break;
      case Transient::Kind::kClone:
        item.kind = LiveKind::kContribution;
        item.name = "copy of the gradient of " + graph.tensor(transient.tensor).name;
        item.category = gradient_category_of(graph.tensor(transient.tensor));
        break;
      case Transient::Kind::kOptimizer:
        item.name = "temporaries of the optimizer";
        item.category = MemoryCategory::kWorkspace;
        break;
    }
    items.push_back(std::move(item));
  }
}

// What a training step finds that is not the first.
ReplayStart later_start(const Graph& graph, const Schedule& schedule) {
  return {.has_states = true, .has_gradients = keeps_gradients(graph, schedule)};
}

bool is_of_loss(const Graph& graph, const Op& op) {
  const auto is_logits = [&](TensorId id) { return graph.tensor(id).is_logits; };
  const bool makes_loss =
      std::find(op.outputs.begin(), op.outputs.end(), graph.loss) != op.outputs.end();
  return makes_loss || std::any_of(op.inputs.begin(), op.inputs.end(), is_logits);
}

Phase phase_of(const Graph& graph, const Step& step) {
  switch (step.kind) {
    case StepKind::kCompute:
      return is_of_loss(graph, graph.op(step.op)) ? Phase::kLoss : Phase::kForward;
    case StepKind::kRecompute:
    case StepKind::kBackward:
      return Phase::kBackward;
    case StepKind::kOptimizerStep:
      return Phase::kOptimizer;
    case StepKind::kFree:
    case StepKind::kFreeGradient:
      break;
  }
  CAIRN_CHECK(false, "a Free has no phase");
}

// Replays the whole and returns each step.
std::vector<StepTrace> replayed(const Schedule& schedule, Replay replay) {
  std::vector<StepTrace> steps;
  for (std::size_t position = 0; position < schedule.steps.size();) {
    StepTrace trace{.step = position};
    replay.begin_step(position);
    trace.during_bytes = replay.during_bytes();
    position = replay.end_step(position);
    trace.after_bytes = replay.live_bytes();
    trace.during_bytes = std::max(trace.during_bytes, replay.summing_bytes());
    steps.push_back(trace);
  }
  return steps;
}

std::vector<PhasePeak> phase_peaks(const Graph& graph, const Schedule& schedule,
                                   const std::vector<StepTrace>& steps) {
  std::vector<PhasePeak> peaks;
  for (const StepTrace& trace : steps) {
    const Phase phase = phase_of(graph, schedule.steps[trace.step]);
    auto found = std::find_if(peaks.begin(), peaks.end(),
                              [&](const PhasePeak& peak) { return peak.phase == phase; });
    if (found == peaks.end()) found = peaks.insert(peaks.end(), {.phase = phase, .bytes = -1});
    if (trace.during_bytes <= found->bytes) continue;
    found->bytes = trace.during_bytes;
    found->step = trace.step;
  }
  return peaks;
}

// Replays up to the peak and lists what is live there.
void describe_peak(const Graph& graph, const Plan& plan, const Schedule& schedule, Trace& trace) {
  const std::size_t peak_step = trace.steps[trace.peak_entry].step;
  Replay replay(graph, schedule, later_start(graph, schedule));
  for (std::size_t position = 0; position < peak_step;) {
    replay.begin_step(position);
    position = replay.end_step(position);
  }
  replay.begin_step(peak_step);
  std::vector<Transient> transients = replay.transients();
  if (replay.during_bytes() < trace.peak_bytes) {  // reached by a sum, behind the frees
    replay.free_behind(peak_step);
    transients = {replay.sum()};
  }
  trace.live_at_peak = live_tensors(graph, plan, replay);
  add_transients(graph, schedule.steps[peak_step], transients, trace.live_at_peak);
  for (const LiveItem& item : trace.live_at_peak) {
    trace.peak_breakdown[static_cast<std::size_t>(item.category)] += item.bytes;
  }
  std::stable_sort(trace.live_at_peak.begin(), trace.live_at_peak.end(),
                   [](const LiveItem& a, const LiveItem& b) { return a.bytes > b.bytes; });
}

}  // namespace

std::int64_t simulated_peak_bytes(const Graph& graph, const Schedule& schedule) {
  std::int64_t peak_bytes = 0;
  for (const StepTrace& step :
       replayed(schedule, {graph, schedule, later_start(graph, schedule)})) {
    peak_bytes = std::max(peak_bytes, step.during_bytes);
  }
  return peak_bytes;
}

std::vector<StepTrace> simulate_first_step(const Graph& graph, const Schedule& schedule) {
  return replayed(schedule, {graph, schedule, {.has_states = schedule.groups.empty()}});
}

Trace simulate(const Graph& graph, const Plan& plan, const Schedule& schedule) {
  Trace trace;
  const Replay later(graph, schedule, later_start(graph, schedule));
  trace.resident_bytes = later.live_bytes();
  trace.steps = replayed(schedule, later);
  for (std::size_t entry = 0; entry < trace.steps.size(); ++entry) {
    const StepTrace& traced = trace.steps[entry];
    if (entry == 0 || traced.during_bytes > trace.peak_bytes) {
      trace.peak_bytes = traced.during_bytes;
      trace.peak_entry = entry;
    }
    const Step& step = schedule.steps[traced.step];
    if (step.kind != StepKind::kRecompute) continue;
    const std::int64_t runs = times_run(schedule, step);
    trace.recompute_count += runs;
    trace.recompute_flops = checked_add(
        trace.recompute_flops,
        checked_multiply(graph.op(step.op).forward.flops, runs, "extra FLOPs"), "extra FLOPs");
  }
  trace.phases = phase_peaks(graph, schedule, trace.steps);
  trace.first_phases = phase_peaks(graph, schedule, simulate_first_step(graph, schedule));
  describe_peak(graph, plan, schedule, trace);
  return trace;
}

}  // namespace cairn
