#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

#include "sim/validator_groups.h"
#include "sim/validator_order.h"

// Compares the steps that are no frees with what the rules say must run.

namespace cairn {
namespace {

struct RunFaults {
  Fault missing = Fault::kNone;
  Fault repeated = Fault::kNone;
  Fault out_of_order = Fault::kNone;
};

class OrderCheck {
 public:
  OrderCheck(const Graph& graph, const Plan& plan, const std::vector<RegionRule>& rules,
             const Schedule& schedule)
      : graph_(graph),
        plan_(plan),
        rules_(rules),
        schedule_(schedule),
        kept_(kept_tensors(graph, plan)),
        region_around_(graph.ops.size(), nullptr),
        computes_(steps_of(StepKind::kCompute)),
        backwards_(steps_of(StepKind::kBackward)),
        recomputes_(steps_of(StepKind::kRecompute)) {
    for (const Region& region : plan.regions) {
      for (std::int32_t position = region.begin; position < region.end; ++position) {
        region_around_[index(op_at(position))] = &region;
      }
    }
  }

  ValidationResult run() const {
    using Check = ValidationResult (OrderCheck::*)() const;
    for (const Check check :
         {&OrderCheck::check_ids, &OrderCheck::check_forward, &OrderCheck::check_backward,
          &OrderCheck::check_recomputed_ops, &OrderCheck::check_reads,
          &OrderCheck::check_recompute_counts, &OrderCheck::check_recompute_places}) {
      ValidationResult result = (this->*check)();
      if (result.fault != Fault::kNone) return result;
    }
    return {};
  }

 private:
  ValidationResult fault_at(Fault fault, std::size_t step) const {
    if (step >= schedule_.steps.size()) {
      return {.fault = fault,
              .step = schedule_.steps.size(),
              .message = fmt::format("end of the schedule: {}", fault_name(fault))};
    }
    const Step& at = schedule_.steps[step];
    return {.fault = fault,
            .step = step,
            .message = fmt::format("step {}, of op '{}': {}", step, graph_.op(at.op).name,
                                   fault_name(fault))};
  }

  OpId op_at(std::int32_t position) const {
    return plan_.order[static_cast<std::size_t>(position)];
  }

  // Positions in the schedule of the steps of one kind.
  std::vector<std::size_t> steps_of(StepKind kind) const {
    std::vector<std::size_t> found;
    for (std::size_t i = 0; i < schedule_.steps.size(); ++i) {
      if (schedule_.steps[i].kind == kind) found.push_back(i);
    }
    return found;
  }

  ValidationResult check_ids() const {
    for (std::size_t i = 0; i < schedule_.steps.size(); ++i) {
      const Step& step = schedule_.steps[i];
      const bool is_free = step.kind == StepKind::kFree || step.kind == StepKind::kFreeGradient;
      bool is_known = index(step.op) < graph_.ops.size();
      if (is_free) is_known = index(step.tensor) < graph_.tensors.size();
      if (step.kind == StepKind::kOptimizerStep) {
        is_known =
            step.group >= 0 && static_cast<std::size_t>(step.group) < schedule_.groups.size();
      }
      if (is_known) continue;
      return {.fault = Fault::kUnknownStep,
              .step = i,
              .message = fmt::format("step {}: {}", i, fault_name(Fault::kUnknownStep))};
    }
    return {};
  }

  ValidationResult compare(const std::vector<std::size_t>& steps, const std::vector<OpId>& expected,
                           const RunFaults& faults) const {
    std::size_t same = 0;  // the steps before the first that differs
    while (same < std::min(steps.size(), expected.size()) &&
           schedule_.steps[steps[same]].op == expected[same]) {
      ++same;
    }
    if (same == steps.size()) {
      return same == expected.size() ? ValidationResult{}
                                     : fault_at(faults.missing, schedule_.steps.size());
    }
    const auto here = steps.begin() + static_cast<std::ptrdiff_t>(same);
    const auto has = [&](auto first, auto last, OpId op) {
      return std::any_of(first, last, [&](std::size_t i) { return schedule_.steps[i].op == op; });
    };
    if (has(steps.begin(), here, schedule_.steps[*here].op)) {
      return fault_at(faults.repeated, *here);
    }
    const bool comes_later = same < expected.size() && has(here, steps.end(), expected[same]);
    return fault_at(comes_later ? faults.out_of_order : faults.missing, *here);
  }

  ValidationResult check_forward() const {
    ValidationResult result = compare(computes_, plan_.order,
                                      {.missing = Fault::kMissingCompute,
                                       .repeated = Fault::kRepeatedCompute,
                                       .out_of_order = Fault::kComputeOutOfOrder});
    if (result.fault != Fault::kNone) return result;
    for (const std::size_t compute : computes_) {
      if (!backwards_.empty() && compute > backwards_[0]) {
        return fault_at(Fault::kComputeOutOfOrder, compute);
      }
    }
    return {};
  }

  ValidationResult check_backward() const {
    for (const std::size_t step : backwards_) {
      if (!graph_.op(schedule_.steps[step].op).has_backward) {
        return fault_at(Fault::kBackwardWithoutGradient, step);
      }
    }
    std::vector<OpId> expected;
    for (const OpId op : plan_.order) {
      if (graph_.op(op).has_backward) expected.push_back(op);
    }
    std::reverse(expected.begin(), expected.end());
    return compare(backwards_, expected,
                   {.missing = Fault::kMissingBackward,
                    .repeated = Fault::kRepeatedBackward,
                    .out_of_order = Fault::kBackwardOutOfOrder});
  }

  ValidationResult check_recomputed_ops() const {
    for (const std::size_t step : recomputes_) {
      const OpId op = schedule_.steps[step].op;
      if (region_around_[index(op)] == nullptr)
        return fault_at(Fault::kRecomputeOutsideRegion, step);
      if (graph_.op(op).recompute == RecomputePolicy::kNever) {
        return fault_at(Fault::kRecomputeOfNever, step);
      }
    }
    return {};
  }

  // What a region makes and does not keep dies in forward: Backwards and Recomputes in it read a
  // copy that a Recompute made.
  ValidationResult check_reads() const {
    std::vector<bool> recomputed(graph_.ops.size(), false);
    for (std::size_t i = 0; i < schedule_.steps.size(); ++i) {
      const Step& step = schedule_.steps[i];
      if (step.kind != StepKind::kRecompute && step.kind != StepKind::kBackward) continue;
      const Op& op = graph_.op(step.op);
      for (const TensorId tensor : step.kind == StepKind::kBackward ? op.saved : op.inputs) {
        const OpId producer = graph_.tensor(tensor).producer;
        if (producer == kNoOp || kept_[index(tensor)] || recomputed[index(producer)]) continue;
        const Region* region = region_around_[index(producer)];
        if (region == nullptr || region != region_around_[index(step.op)] ||
            graph_.op(producer).recompute == RecomputePolicy::kNever) {
          continue;
        }
        return fault_at(Fault::kReadOfDroppedCopy, i);
      }
      if (step.kind == StepKind::kRecompute) recomputed[index(step.op)] = true;
    }
    return {};
  }

  // Every op is recomputed as often as regions around it have it in their extent.
  ValidationResult check_recompute_counts() const {
    std::vector<std::size_t> left(graph_.ops.size(), 0);
    for (const RegionRule& rule : rules_) {
      for (const OpId op : rule.ops) ++left[index(op)];
    }
    const std::vector<std::size_t> allowed = left;
    for (const std::size_t step : recomputes_) {
      const std::size_t op = index(schedule_.steps[step].op);
      if (left[op] == 0) {
        return fault_at(allowed[op] == 0 ? Fault::kNeedlessRecompute : Fault::kRepeatedRecompute,
                        step);
      }
      --left[op];
    }
    for (std::size_t op = 0; op < left.size(); ++op) {
      if (left[op] == 0) continue;
      return {.fault = Fault::kMissingRecompute,
              .step = schedule_.steps.size(),
              .message = fmt::format("op '{}': {}", graph_.ops[op].name,
                                     fault_name(Fault::kMissingRecompute))};
    }
    return {};
  }

  // Directly before the Backward at a trigger stand the Recomputes of the regions that have this
  // trigger, enclosing regions first, each in the plan's order.
  ValidationResult check_recompute_places() const {
    const Groups triggered = rules_by_trigger();
    std::vector<OpId> expected;
    std::vector<OpId> found;      // the Recomputes since the last Compute or Backward
    std::size_t first_found = 0;  // in the schedule
    for (std::size_t i = 0; i < schedule_.steps.size(); ++i) {
      const Step& step = schedule_.steps[i];
      if (step.kind == StepKind::kRecompute) {
        if (found.empty()) first_found = i;
        found.push_back(step.op);
      }
      if (step.kind != StepKind::kCompute && step.kind != StepKind::kBackward) continue;
      expected.clear();
      if (step.kind == StepKind::kBackward) {
        for (const std::size_t rule : triggered[index(step.op)]) {
          expected.insert(expected.end(), rules_[rule].ops.begin(), rules_[rule].ops.end());
        }
      }
      if (found != expected) {
        return fault_at(why_misplaced(found, expected), found.empty() ? i : first_found);
      }
      found.clear();
    }
    if (!found.empty()) return fault_at(Fault::kRecomputeAtWrongTrigger, first_found);
    return {};
  }

  // By op: the rules of the regions that are recomputed directly before its Backward.
  Groups rules_by_trigger() const {
    std::vector<Member> members;
    for (std::size_t rule = 0; rule < rules_.size(); ++rule) {
      if (rules_[rule].trigger == kNoPosition) continue;
      members.push_back({.group = index(op_at(rules_[rule].trigger)), .value = rule});
    }
    return Groups(graph_.ops.size(), members);
  }

  static Fault why_misplaced(std::vector<OpId> found, std::vector<OpId> expected) {
    std::sort(found.begin(), found.end());
    std::sort(expected.begin(), expected.end());
    return found == expected ? Fault::kRecomputeOutOfOrder : Fault::kRecomputeAtWrongTrigger;
  }

  const Graph& graph_;
  const Plan& plan_;
  const std::vector<RegionRule>& rules_;
  const Schedule& schedule_;
  std::vector<bool> kept_;
  std::vector<const Region*> region_around_;  // by op: the outermost; nullptr where there is none
  std::vector<std::size_t> computes_;         // positions in the schedule
  std::vector<std::size_t> backwards_;
  std::vector<std::size_t> recomputes_;
};

}  // namespace

ValidationResult check_order(const Graph& graph, const Plan& plan,
                             const std::vector<RegionRule>& rules, const Schedule& schedule) {
  return OrderCheck(graph, plan, rules, schedule).run();
}

}  // namespace cairn
