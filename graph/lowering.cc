#include <fmt/format.h>

#include <algorithm>

#include "graph/error.h"
#include "graph/recompute_sets.h"
#include "graph/region_tree.h"
#include "graph/schedule.h"

namespace cairn {
namespace {

// Region inputs a trainer holds although only the recompute reads them: read again, in effect, by
// the Backward of `op` (docs/accounting.md, section 5).
struct Hold {
  OpId op = kNoOp;
  std::vector<TensorId> tensors = {};
};

class Lowering {
 public:
  Lowering(const Graph& graph, const Plan& plan)
      : graph_(graph),
        plan_(plan),
        tree_(flatten_regions(graph, plan)),
        sets_(recompute_sets(graph, plan, tree_)) {
    is_recomputed_.assign(tree_.frames.size(), false);
    is_recomputed_[0] = true;
  }

  Schedule lower() {
    for (const OpId op : plan_.order) sequence_.push_back({.kind = StepKind::kCompute, .op = op});
    close_run();
    for (std::size_t i = plan_.order.size(); i-- > 0;) {
      const OpId op = plan_.order[i];
      if (!graph_.op(op).has_backward) continue;
      recompute_for(op);
      sequence_.push_back({.kind = StepKind::kBackward, .op = op});
      close_run();
    }
    return {.steps = with_frees(), .warnings = std::move(sets_.warnings)};
  }

 private:
  // The recomputes that have to stand before the Backward of `op`: rule 18 and section 5.
  void recompute_for(OpId op) {
    const std::int32_t frame = tree_.frame_of_op[index(op)];
    switch (plan_.extent) {
      case Extent::kNeeded: {
        std::vector<std::int32_t> holders;
        for (const TensorId tensor : graph_.op(op).saved) {
          const OpId producer = graph_.tensor(tensor).producer;
          if (producer == kNoOp || sets_.is_kept[index(tensor)]) continue;
          holders.push_back(common_frame(tree_, tree_.frame_of_op[index(producer)], frame));
        }
        std::sort(holders.begin(), holders.end());  // enclosing frames first
        for (const std::int32_t holder : holders) recompute(holder);
        return;
      }
      case Extent::kPrefix:
        if (!graph_.op(op).saved.empty()) recompute_from_outside_in(frame);
        return;
      case Extent::kWhole:
        recompute_from_outside_in(frame);
        return;
    }
  }

  void recompute_from_outside_in(std::int32_t frame) {
    if (frame == 0) return;
    recompute_from_outside_in(tree_.frames[static_cast<std::size_t>(frame)].parent);
    recompute(frame);
  }

  void recompute(std::int32_t frame) {
    const auto i = static_cast<std::size_t>(frame);
    if (is_recomputed_[i]) return;
    is_recomputed_[i] = true;
    for (const std::int32_t outer : sets_.reads_frames[i]) recompute(outer);
    for (const OpId op : sets_.ops_of_frame[i]) {
      sequence_.push_back({.kind = StepKind::kRecompute, .op = op});
    }
    close_run();
  }

  // The steps added since the last run closed are one: forward, or one recompute.
  void close_run() { run_end_.resize(sequence_.size(), sequence_.size()); }

  // Rule 1a: the step of the run that makes the tensor at `made` behind which its scope ends.
  std::size_t end_of_scope(TensorId tensor, std::size_t made) const {
    const OpId last_op = graph_.tensor(tensor).held_until;
    if (last_op == kNoOp) return made;
    const auto begin = sequence_.begin() + static_cast<std::ptrdiff_t>(made);
    const auto end = sequence_.begin() + static_cast<std::ptrdiff_t>(run_end_[made]);
    const auto behind = std::upper_bound(
        begin, end, position_of(last_op),
        [this](std::int32_t last, const Step& step) { return last < position_of(step.op); });
    const std::size_t in_scope_count = static_cast<std::size_t>(behind - begin);
    return in_scope_count == 0 ? made : made + in_scope_count - 1;
  }

  std::int32_t position_of(OpId op) const { return tree_.position_of_op[index(op)]; }

  std::vector<Hold> holds() const {
    if (plan_.extent == Extent::kNeeded) return {};
    std::vector<std::vector<TensorId>> inputs = region_inputs(graph_, tree_);
    std::vector<Hold> holds(tree_.frames.size());
    for (std::size_t i = plan_.order.size(); i-- > 0;) {
      const OpId op = plan_.order[i];
      if (!graph_.op(op).has_backward) continue;
      const std::int32_t own = tree_.frame_of_op[index(op)];
      if (plan_.extent == Extent::kPrefix) {
        if (!graph_.op(op).saved.empty()) holds[static_cast<std::size_t>(own)].op = op;
        continue;
      }
      for (std::int32_t frame = own; frame > 0;
           frame = tree_.frames[static_cast<std::size_t>(frame)].parent) {
        holds[static_cast<std::size_t>(frame)].op = op;
      }
    }
    for (std::size_t frame = 1; frame < holds.size(); ++frame) {
      holds[frame].tensors = std::move(inputs[frame]);
    }
    holds.erase(holds.begin());
    return holds;
  }

  // Rule 1, backwards: a copy dies behind the last step that reads it before it is made again, or
  // where its scope ends, if that is later.
  std::vector<Step> with_frees() const {
    std::vector<std::vector<TensorId>> held_until(graph_.ops.size());
    for (const Hold& hold : holds()) {
      if (hold.op == kNoOp) continue;
      std::vector<TensorId>& held = held_until[index(hold.op)];
      held.insert(held.end(), hold.tensors.begin(), hold.tensors.end());
    }
    std::vector<std::size_t> last_read(graph_.tensors.size(), kNotRead);
    std::vector<std::vector<TensorId>> dying(sequence_.size());  // by step
    for (std::size_t i = sequence_.size(); i-- > 0;) {
      const auto read = [&](TensorId tensor) {
        if (last_read[index(tensor)] == kNotRead) last_read[index(tensor)] = i;
      };
      const Step& step = sequence_[i];
      const Op& op = graph_.op(step.op);
      if (step.kind == StepKind::kBackward) {
        for (const TensorId tensor : op.saved) read(tensor);
        for (const TensorId tensor : held_until[index(step.op)]) read(tensor);
        continue;
      }
      for (const auto* made : {&op.outputs, &op.auxiliaries}) {
        for (const TensorId tensor : *made) {
          std::size_t& last = last_read[index(tensor)];
          // A recompute of a kept tensor makes a duplicate; the copy from forward lives on.
          const bool duplicate =
              step.kind == StepKind::kRecompute && sets_.is_kept[index(tensor)] && last != kNotRead;
          if (duplicate) continue;
          const std::size_t end = end_of_scope(tensor, i);
          dying[last == kNotRead ? end : std::max(last, end)].push_back(tensor);
          last = kNotRead;
        }
      }
      for (const TensorId tensor : op.inputs) read(tensor);
    }
    return in_order(dying);
  }

  // The sequence with what dies behind each step.
  std::vector<Step> in_order(std::vector<std::vector<TensorId>>& dying) const {
    std::vector<Step> steps;
    steps.reserve(sequence_.size() * 3);
    for (std::size_t i = 0; i < sequence_.size(); ++i) {
      steps.push_back(sequence_[i]);
      std::sort(dying[i].begin(), dying[i].end());
      for (const TensorId tensor : dying[i]) {
        steps.push_back({.kind = StepKind::kFree, .tensor = tensor});
      }
      if (sequence_[i].kind != StepKind::kBackward) continue;
      for (const TensorId output : graph_.op(sequence_[i].op).outputs) {
        if (!graph_.tensor(output).has_gradient) continue;
        steps.push_back({.kind = StepKind::kFreeGradient, .tensor = output});
      }
    }
    return steps;
  }

  static constexpr std::size_t kNotRead = static_cast<std::size_t>(-1);

  const Graph& graph_;
  const Plan& plan_;
  RegionTree tree_;
  RecomputeSets sets_;
  std::vector<bool> is_recomputed_ = {};
  std::vector<Step> sequence_ = {};        // without frees
  std::vector<std::size_t> run_end_ = {};  // by step of the sequence: one past the end of its run
};

}  // namespace

Schedule lower(const Graph& graph, const Plan& plan) {
  check_plan(graph, plan);
  return Lowering(graph, plan).lower();
}

bool is_free(StepKind kind) { return kind == StepKind::kFree || kind == StepKind::kFreeGradient; }

std::int64_t times_run(const Schedule& schedule, const Step& step) {
  return step.micro_batch == 0 ? 1 : schedule.micro_batches - 1;
}

std::string step_text(const Graph& graph, const Step& step) {
  switch (step.kind) {
    case StepKind::kCompute:
      return fmt::format("C {}", graph.op(step.op).name);
    case StepKind::kRecompute:
      return fmt::format("R {}", graph.op(step.op).name);
    case StepKind::kBackward:
      return fmt::format("B {}", graph.op(step.op).name);
    case StepKind::kFree:
      return fmt::format("F {}", graph.tensor(step.tensor).name);
    case StepKind::kFreeGradient:
      return fmt::format("FG {}", graph.tensor(step.tensor).name);
    case StepKind::kOptimizerStep:
      return "O";
  }
  CAIRN_CHECK(false, "unknown step kind");
}

}  // namespace cairn
