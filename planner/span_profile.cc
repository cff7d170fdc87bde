#include "planner/span_profile.h"

#include <algorithm>
#include <utility>

#include "graph/plan.h"
#include "graph/schedule.h"
#include "planner/blocks.h"
#include "sim/replay.h"

namespace cairn {
namespace {

bool is_in(const Span& span, OpId op) {
  const auto position = static_cast<std::int32_t>(op);
  return span.begin <= position && position < span.end;
}

// Storages of tensors with a gradient that the span is handed.
std::vector<bool> input_storages(const Graph& graph, const Span& span) {
  std::vector<bool> is_input(graph.storages.size(), false);
  for (std::int32_t i = span.begin; i < span.end; ++i) {
    for (const TensorId input : graph.ops[static_cast<std::size_t>(i)].inputs) {
      const Tensor& tensor = graph.tensor(input);
      if (tensor.producer == kNoOp || !tensor.has_gradient || is_leaf(graph, input)) continue;
      if (static_cast<std::int32_t>(tensor.producer) < span.begin) {
        is_input[index(tensor.storage)] = true;
      }
    }
  }
  return is_input;
}

// What ops before the span hold for their Backwards, without the span's inputs.
std::int64_t held_before_bytes(const Graph& graph, const Span& span) {
  std::vector<bool> is_counted = input_storages(graph, span);
  std::int64_t held_bytes = 0;
  for (std::int32_t i = 0; i < span.begin; ++i) {
    const Op& op = graph.ops[static_cast<std::size_t>(i)];
    if (!op.has_backward) continue;
    for (const TensorId saved : op.saved) {
      const Tensor& tensor = graph.tensor(saved);
      if (tensor.producer == kNoOp || is_counted[index(tensor.storage)]) continue;
      is_counted[index(tensor.storage)] = true;
      if (is_resident(graph.tensor(graph.storage(tensor.storage).owner))) continue;
      held_bytes += graph.storage(tensor.storage).bytes;
    }
  }
  return held_bytes;
}

// Of parameters and inputs, live now.
std::int64_t resident_gradient_bytes(const Graph& graph, const Replay& replay) {
  std::int64_t bytes = 0;
  for (std::size_t i = 0; i < graph.tensors.size(); ++i) {
    if (!is_resident(graph.tensors[i])) continue;
    const auto id = static_cast<TensorId>(i);
    for (const std::int32_t allocation :
         {replay.allocation_of_gradient(id), replay.allocation_of_gathered(id)}) {
      if (allocation >= 0) bytes += replay.allocation(allocation).bytes;
    }
  }
  return bytes;
}

class Profiler {
 public:
  Profiler(const Graph& graph, const Span& span, const TrainingStep& step, const Schedule& schedule)
      : graph_(graph),
        span_(span),
        step_(step),
        schedule_(schedule),
        replay_(graph, schedule,
                {.has_states = true, .has_gradients = keeps_gradients(graph, schedule)}) {
    const std::int32_t op_count = span.end - span.begin;
    const auto size = static_cast<std::size_t>(op_count);
    for (auto* const list : {&profile_.forward_bytes, &profile_.backward_bytes,
                             &profile_.behind_bytes, &profile_.before_backward_bytes}) {
      list->assign(size, 0);
    }
    base_bytes_ = replay_.live_bytes() - resident_gradient_bytes(graph, replay_) +
                  held_before_bytes(graph, span);
  }

  // Of the last pass, where there are several micro-batches.
  SpanProfile run() {
    const std::int32_t pass = schedule_.micro_batches > 1 ? 1 : 0;
    for (std::size_t position = 0; position < schedule_.steps.size();) {
      const Step& step = schedule_.steps[position];
      const bool is_of_span = step.micro_batch == pass && step.op != kNoOp && is_in(span_, step.op);
      if (is_of_span) find_zero(step.kind == StepKind::kCompute);
      const std::int64_t before_bytes = replay_.live_bytes();
      replay_.begin_step(position);
      const std::int64_t during_bytes = replay_.during_bytes();
      position = replay_.end_step(position);
      if (step.op != kNoOp) backward_op_ = -1;
      if (is_of_span) note(step, before_bytes, during_bytes);
      if (step.kind == StepKind::kOptimizerStep && step_.optimizer_in_backward) {
        note_behind(during_bytes);
      }
    }
    return std::move(profile_);
  }

 private:
  void find_zero(bool is_forward) {
    if (is_forward ? is_in_forward_ : is_in_backward_) return;
    (is_forward ? is_in_forward_ : is_in_backward_) = true;
    zero_bytes_ = base_bytes_ + resident_gradient_bytes(graph_, replay_);
  }

  void note(const Step& step, std::int64_t before_bytes, std::int64_t during_bytes) {
    const std::int32_t place = static_cast<std::int32_t>(step.op) - span_.begin;
    const auto i = static_cast<std::size_t>(place);
    const std::int64_t bytes = during_bytes - zero_bytes_;
    if (step.kind == StepKind::kCompute) {
      profile_.forward_bytes[i] = bytes;
      profile_.forward_peak_bytes = std::max(profile_.forward_peak_bytes, bytes);
      return;
    }
    profile_.backward_peak_bytes = std::max(profile_.backward_peak_bytes, bytes);
    if (step.kind == StepKind::kRecompute) {
      profile_.recomputed.push_back(step.op);
      profile_.recompute_peak_bytes = std::max(profile_.recompute_peak_bytes, bytes);
      return;
    }
    if (profile_.trigger == kNoOp && !profile_.recomputed.empty()) profile_.trigger = step.op;
    profile_.backward_bytes[i] = bytes;
    profile_.before_backward_bytes[i] = before_bytes - zero_bytes_;
    backward_op_ = place;
    note_behind(replay_.summing_bytes());
  }

  void note_behind(std::int64_t live_bytes) {
    if (backward_op_ < 0) return;
    std::int64_t& behind = profile_.behind_bytes[static_cast<std::size_t>(backward_op_)];
    behind = std::max(behind, live_bytes - zero_bytes_);
    profile_.backward_peak_bytes = std::max(profile_.backward_peak_bytes, behind);
  }

  const Graph& graph_;
  const Span& span_;
  const TrainingStep& step_;
  const Schedule& schedule_;
  Replay replay_;
  SpanProfile profile_ = {};
  std::int64_t base_bytes_ = 0;  // zero, without gradients of parameters and inputs
  std::int64_t zero_bytes_ = 0;
  bool is_in_forward_ = false;
  bool is_in_backward_ = false;
  std::int32_t backward_op_ = -1;  // of the span, whose Backward ran last
};

}  // namespace

SpanProfile span_profile(const Graph& graph, const Span& span, const std::vector<TensorId>& keep,
                         const Setting& setting) {
  Plan plan = keep_all_plan(graph);
  plan.extent = setting.extent;
  plan.regions = {{.begin = span.begin, .end = span.end, .keep = keep}};
  const Schedule schedule = lower_training_step(graph, setting.step, lower(graph, plan));
  return Profiler(graph, span, setting.step, schedule).run();
}

}  // namespace cairn
