#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "sim/validator_groups.h"
#include "sim/validator_memory.h"

// What torch's checkpoints hold although no step reads it, section 5 of the rules: as reads of the
// run behind which it is let go of.

namespace cairn {
namespace {

class HolderReads {
 public:
  HolderReads(const Graph& graph, const Plan& plan, const std::vector<RegionRule>& rules,
              const std::vector<Run>& runs)
      : graph_(graph), plan_(plan), rules_(rules), runs_(runs) {
    position_.assign(graph.ops.size(), kNoPosition);
    last_read_.assign(graph.tensors.size(), kNoPosition);
    for (std::size_t i = 0; i < plan.order.size(); ++i) {
      const auto position = static_cast<std::int32_t>(i);
      position_[index(plan.order[i])] = position;
      for (const TensorId input : graph.op(plan.order[i]).inputs) {
        last_read_[index(input)] = position;
      }
    }
    backward_run_.assign(plan.order.size(), 0);
    for (std::size_t run = 0; run < runs.size(); ++run) {
      if (runs[run].kind != StepKind::kBackward) continue;
      backward_run_[static_cast<std::size_t>(position_of_run(run))] = run;
    }
  }

  std::vector<Member> find() {
    find_recomputes();
    for (std::size_t rule = 0; rule < rules_.size(); ++rule) {
      if (!rules_[rule].holds_what_it_is_passed) continue;
      hold_in_forward(rule);
      hold_to_backward(rule);
      if (rules_[rule].trigger != kNoPosition) hold_in_recompute(rule);
    }
    return std::move(reads_);
  }

 private:
  // The runs of one region's recompute, half-open; where there are none, it is between two runs.
  struct Recompute {
    std::size_t begin = 0;
    std::size_t end = 0;
  };

  // What the run itself makes is not held: it has been let go of when the next run begins.
  void add(const std::vector<TensorId>& tensors, std::size_t run) {
    const bool makes = runs_[run].kind != StepKind::kBackward;
    for (const TensorId tensor : tensors) {
      if (makes && graph_.tensor(tensor).producer == runs_[run].op) continue;
      reads_.push_back({.group = index(tensor), .value = run});
    }
  }

  std::int32_t position_of_run(std::size_t run) const { return position_[index(runs_[run].op)]; }

  // Directly before the Backward at a trigger, an enclosing region's first: from the last back.
  void find_recomputes() {
    std::vector<std::size_t> before = backward_run_;
    recomputes_.resize(rules_.size());
    for (std::size_t rule = rules_.size(); rule-- > 0;) {
      if (rules_[rule].trigger == kNoPosition) continue;
      std::size_t& end = before[static_cast<std::size_t>(rules_[rule].trigger)];
      const std::size_t begin = end - std::min(end, rules_[rule].ops.size());
      recomputes_[rule] = {.begin = begin, .end = end};
      end = begin;
    }
  }

  // To the end of the region. Its ops are Computed in the plan's order, first of all.
  void hold_in_forward(std::size_t rule) {
    add(rules_[rule].inputs, static_cast<std::size_t>(rules_[rule].end) - 1);
  }

  void hold_to_backward(std::size_t rule) {
    if (rules_[rule].held_until == kNoPosition) return;
    const std::size_t run = backward_run_[static_cast<std::size_t>(rules_[rule].held_until)];
    add(rules_[rule].inputs, run);
    for (const TensorId kept : rules_[rule].kept) {
      if (position_[index(graph_.tensor(kept).producer)] >= rules_[rule].stop) add({kept}, run);
    }
  }

  void hold_in_recompute(std::size_t rule) {
    const Recompute recompute = recomputes_[rule];
    if (recompute.end == 0) return;
    const std::size_t last = last_before(recompute.end);
    if (rules_[rule].lets_go_behind_recompute) add(rules_[rule].inputs, last);
    for (std::size_t run = recompute.begin; run < recompute.end; ++run) {
      hold_in_sweep(rule, run);
    }
    // The recompute takes what was kept where that was made; what it stops before, nobody takes.
    for (const TensorId kept : rules_[rule].kept) {
      const bool is_taken = position_[index(graph_.tensor(kept).producer)] < rules_[rule].stop;
      if (is_taken) add({kept}, last_use(recompute, kept));
    }
  }

  // An optimizer that steps within backward lets go of nothing of a checkpoint's.
  std::size_t last_before(std::size_t run) const {
    while (runs_[run - 1].kind == StepKind::kOptimizerStep) --run;
    return run - 1;
  }

  // The last run of the recompute that stands, in the plan's order, no later than the last op that
  // reads the tensor; the run before the recompute where all of it stands later.
  std::size_t last_use(const Recompute& recompute, TensorId tensor) const {
    std::int32_t until =
        std::max(last_read_[index(tensor)], position_[index(graph_.tensor(tensor).producer)]);
    if (const OpId held = graph_.tensor(tensor).held_until; held != kNoOp) {
      until = std::max(until, position_[index(held)]);
    }
    std::size_t run = recompute.end;
    while (run > recompute.begin && position_of_run(run - 1) > until) --run;
    return last_before(run);
  }

  // Where the recompute runs the last op of a region inside.
  void hold_in_sweep(std::size_t rule, std::size_t run) {
    for (std::size_t inner = rule + 1; inner < rules_.size(); ++inner) {
      if (rules_[inner].begin >= rules_[rule].end) return;
      if (rules_[inner].end == position_of_run(run) + 1) add(rules_[inner].inputs, run);
    }
  }

  const Graph& graph_;
  const Plan& plan_;
  const std::vector<RegionRule>& rules_;
  const std::vector<Run>& runs_;
  std::vector<std::int32_t> position_;      // by op
  std::vector<std::int32_t> last_read_;     // by tensor: position of the last op that reads it
  std::vector<std::size_t> backward_run_;   // by position
  std::vector<Recompute> recomputes_ = {};  // by rule
  std::vector<Member> reads_ = {};
};

}  // namespace

std::vector<Member> reads_of_holders(const Graph& graph, const Plan& plan,
                                     const std::vector<RegionRule>& rules,
                                     const std::vector<Run>& runs) {
  return HolderReads(graph, plan, rules, runs).find();
}

}  // namespace cairn
