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

// What the function of a region held, and lets go of behind a step of the sequence.
struct Release {
  std::size_t step = 0;
  std::vector<TensorId> tensors = {};
};

class Lowering {
 public:
  Lowering(const Graph& graph, const Plan& plan)
      : graph_(graph),
        plan_(plan),
        tree_(flatten_regions(graph, plan)),
        sets_(recompute_sets(graph, plan, tree_)),
        inputs_(region_inputs(graph, tree_)) {
    is_recomputed_.assign(tree_.frames.size(), false);
    is_recomputed_[0] = true;
    last_read_at_.assign(graph.tensors.size(), -1);
    for (std::size_t i = 0; i < plan.order.size(); ++i) {
      for (const TensorId input : graph.op(plan.order[i]).inputs) {
        last_read_at_[index(input)] = static_cast<std::int32_t>(i);
      }
    }
  }

  Schedule lower() {
    check_keep_lists();
    for (const OpId op : plan_.order) {
      sequence_.push_back({.kind = StepKind::kCompute, .op = op});
      release_at_end(0, op);
    }
    close_run();
    for (std::size_t i = plan_.order.size(); i-- > 0;) {
      const OpId op = plan_.order[i];
      if (!graph_.op(op).has_backward) continue;
      recompute_for(op);
      sequence_.push_back({.kind = StepKind::kBackward, .op = op});
      close_run();
    }
    std::stable_sort(released_after_.begin(), released_after_.end(),
                     [](const Release& a, const Release& b) { return a.step < b.step; });
    return {.steps = with_frees(), .warnings = std::move(sets_.warnings)};
  }

 private:
  void check_keep_lists() const {
    const TensorId useless = sets_.useless_keep;
    if (useless == kNoTensor) return;
    const std::int32_t made_at = tree_.position_of_op[index(graph_.tensor(useless).producer)];
    for (const Region& region : plan_.regions) {
      if (made_at < region.begin || made_at >= region.end) continue;
      throw InputError(
          fmt::format("plan: region [{}, {}) keeps '{}', which no Backward and no recompute reads",
                      region.begin, region.end, graph_.tensor(useless).name));
    }
  }

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
    const std::size_t first_step = sequence_.size();
    for (const OpId op : sets_.ops_of_frame[i]) {
      sequence_.push_back({.kind = StepKind::kRecompute, .op = op});
      release_at_end(frame, op);
    }
    close_run();
    release_in_recompute(frame, first_step);
  }

  // Section 5: a nested region lets go of what it was passed when its recompute is over. What was
  // kept, the function of the recompute holds as if it had made it (end_of_scope).
  void release_in_recompute(std::int32_t frame, std::size_t first_step) {
    const auto i = static_cast<std::size_t>(frame);
    if (plan_.extent != Extent::kPrefix || sequence_.empty()) return;
    if (tree_.frames[i].depth > 1) {
      released_after_.push_back({.step = sequence_.size() - 1, .tensors = inputs_[i]});
    }
    const std::vector<OpId>& ops = sets_.ops_of_frame[i];
    for (const TensorId kept : keep_list(frame)) {
      if (is_behind_stop(frame, kept)) continue;
      const std::int32_t made_at = position_of(graph_.tensor(kept).producer);
      const auto behind =
          std::upper_bound(ops.begin(), ops.end(), std::max(made_at, last_name_at(kept)),
                           [this](std::int32_t last, OpId op) { return last < position_of(op); });
      const std::size_t steps = first_step + static_cast<std::size_t>(behind - ops.begin());
      if (steps > 0) released_after_.push_back({.step = steps - 1, .tensors = {kept}});
    }
  }

  bool is_behind_stop(std::int32_t frame, TensorId tensor) const {
    const OpId producer = graph_.tensor(tensor).producer;
    return tree_.position_of_op[index(producer)] >=
           sets_.stop_of_frame[static_cast<std::size_t>(frame)];
  }

  // `prefix` only: no other checkpoint of torch has one.
  const std::vector<TensorId>& keep_list(std::int32_t frame) const {
    static const std::vector<TensorId> kNothing;
    if (plan_.extent != Extent::kPrefix) return kNothing;
    for (const Region& region : plan_.regions) {
      const Frame& of = tree_.frames[static_cast<std::size_t>(frame)];
      if (of.depth == 1 && region.begin == of.begin) return region.keep;
    }
    return kNothing;
  }

  // Section 5: a region's function holds what it was passed until it is over, in forward and where
  // the recompute of `around` runs it.
  void release_at_end(std::int32_t around, OpId op) {
    if (plan_.extent == Extent::kNeeded) return;
    for (std::int32_t frame = tree_.frame_of_op[index(op)]; frame != around;
         frame = tree_.frames[static_cast<std::size_t>(frame)].parent) {
      const auto i = static_cast<std::size_t>(frame);
      if (tree_.frames[i].end != tree_.position_of_op[index(op)] + 1) return;
      released_after_.push_back({.step = sequence_.size() - 1, .tensors = inputs_[i]});
    }
  }

  // The steps added since the last run closed are one: forward, or one recompute.
  void close_run() { run_end_.resize(sequence_.size(), sequence_.size()); }

  // Position of the last op that reads the tensor in forward, or ends the scope of its names.
  std::int32_t last_name_at(TensorId tensor) const {
    const OpId held_until = graph_.tensor(tensor).held_until;
    const std::int32_t last_read = last_read_at_[index(tensor)];
    return held_until == kNoOp ? last_read : std::max(last_read, position_of(held_until));
  }

  // Rule 1a: the step of the run that makes the tensor at `made` behind which its scope ends. In a
  // checkpoint's recompute every tensor has one, to its last reader (section 5).
  std::size_t end_of_scope(TensorId tensor, std::size_t made) const {
    const bool in_function =
        sequence_[made].kind == StepKind::kRecompute && plan_.extent != Extent::kNeeded;
    if (!in_function && graph_.tensor(tensor).held_until == kNoOp) return made;
    const std::int32_t last_position =
        in_function ? last_name_at(tensor) : position_of(graph_.tensor(tensor).held_until);
    const auto begin = sequence_.begin() + static_cast<std::ptrdiff_t>(made);
    const auto end = sequence_.begin() + static_cast<std::ptrdiff_t>(run_end_[made]);
    const auto behind = std::upper_bound(
        begin, end, last_position,
        [this](std::int32_t last, const Step& step) { return last < position_of(step.op); });
    const auto in_scope_count = static_cast<std::size_t>(behind - begin);
    return in_scope_count == 0 ? made : made + in_scope_count - 1;
  }

  std::int32_t position_of(OpId op) const { return tree_.position_of_op[index(op)]; }

  // `prefix`: what is passed to an outermost region, to the last Backward in it that saves
  // something. `whole`: what is passed to any, to its last Backward.
  std::vector<Hold> holds() const {
    if (plan_.extent == Extent::kNeeded) return {};
    std::vector<Hold> holds(tree_.frames.size());
    for (std::size_t i = plan_.order.size(); i-- > 0;) {
      const OpId op = plan_.order[i];
      if (!graph_.op(op).has_backward) continue;
      if (plan_.extent == Extent::kPrefix && graph_.op(op).saved.empty()) continue;
      for (std::int32_t frame = tree_.frame_of_op[index(op)]; frame > 0;
           frame = tree_.frames[static_cast<std::size_t>(frame)].parent) {
        holds[static_cast<std::size_t>(frame)].op = op;
      }
    }
    for (std::size_t frame = 1; frame < holds.size(); ++frame) {
      const bool is_nested = tree_.frames[frame].depth > 1;
      if (plan_.extent == Extent::kWhole || !is_nested) holds[frame].tensors = inputs_[frame];
      for (const TensorId kept : keep_list(static_cast<std::int32_t>(frame))) {
        if (is_behind_stop(static_cast<std::int32_t>(frame), kept)) {
          holds[frame].tensors.push_back(kept);  // no recompute takes it
        }
      }
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
    auto released = released_after_.rbegin();
    for (std::size_t i = sequence_.size(); i-- > 0;) {
      const auto read = [&](TensorId tensor) {
        if (last_read[index(tensor)] == kNotRead) last_read[index(tensor)] = i;
      };
      const Step& step = sequence_[i];
      const Op& op = graph_.op(step.op);
      for (; released != released_after_.rend() && released->step == i; ++released) {
        // What the step itself makes is not held: that is over when the next one begins.
        const bool makes = step.kind != StepKind::kBackward;
        for (const TensorId tensor : released->tensors) {
          if (!makes || graph_.tensor(tensor).producer != step.op) read(tensor);
        }
      }
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
  std::vector<std::vector<TensorId>> inputs_;    // by frame
  std::vector<std::int32_t> last_read_at_ = {};  // by tensor: in forward, position of the last op
  std::vector<bool> is_recomputed_ = {};
  std::vector<Step> sequence_ = {};           // without frees
  std::vector<Release> released_after_ = {};  // by step
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

std::string_view step_kind_name(StepKind kind) {
  switch (kind) {
    case StepKind::kCompute:
      return "forward";
    case StepKind::kRecompute:
      return "recompute";
    case StepKind::kBackward:
      return "backward";
    case StepKind::kOptimizerStep:
      return "optimizer step";
    case StepKind::kFree:
    case StepKind::kFreeGradient:
      break;
  }
  CAIRN_CHECK(false, "a Free has no name of its own");
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
