#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

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
        position_(positions_of_ops(graph, plan)),
        kept_(kept_tensors(graph, plan)) {}

  ValidationResult run() {
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
      const bool is_known =
          is_free ? index(step.tensor) < graph_.tensors.size() : index(step.op) < graph_.ops.size();
      if (is_known) continue;
      return {.fault = Fault::kUnknownStep,
              .step = i,
              .message = fmt::format("step {}: {}", i, fault_name(Fault::kUnknownStep))};
    }
    return {};
  }

  ValidationResult compare(const std::vector<std::size_t>& steps, const std::vector<OpId>& expected,
                           const RunFaults& faults) const {
    std::vector<OpId> found;
    for (const std::size_t step : steps) found.push_back(schedule_.steps[step].op);
    for (std::size_t i = 0; i < std::max(found.size(), expected.size()); ++i) {
      const auto here = found.begin() + static_cast<std::ptrdiff_t>(std::min(i, found.size()));
      if (here == found.end()) return fault_at(faults.missing, schedule_.steps.size());
      if (i < expected.size() && *here == expected[i]) continue;
      if (std::find(found.begin(), here, *here) != here) return fault_at(faults.repeated, steps[i]);
      const bool comes_later =
          i < expected.size() && std::find(here, found.end(), expected[i]) != found.end();
      return fault_at(comes_later ? faults.out_of_order : faults.missing, steps[i]);
    }
    return {};
  }

  ValidationResult check_forward() const {
    ValidationResult result = compare(steps_of(StepKind::kCompute), plan_.order,
                                      {.missing = Fault::kMissingCompute,
                                       .repeated = Fault::kRepeatedCompute,
                                       .out_of_order = Fault::kComputeOutOfOrder});
    if (result.fault != Fault::kNone) return result;
    const std::vector<std::size_t> backwards = steps_of(StepKind::kBackward);
    for (const std::size_t compute : steps_of(StepKind::kCompute)) {
      if (!backwards.empty() && compute > backwards[0]) {
        return fault_at(Fault::kComputeOutOfOrder, compute);
      }
    }
    return {};
  }

  ValidationResult check_backward() const {
    for (const std::size_t step : steps_of(StepKind::kBackward)) {
      if (!graph_.op(schedule_.steps[step].op).has_backward) {
        return fault_at(Fault::kBackwardWithoutGradient, step);
      }
    }
    std::vector<OpId> expected;
    for (const OpId op : plan_.order) {
      if (graph_.op(op).has_backward) expected.insert(expected.begin(), op);
    }
    return compare(steps_of(StepKind::kBackward), expected,
                   {.missing = Fault::kMissingBackward,
                    .repeated = Fault::kRepeatedBackward,
                    .out_of_order = Fault::kBackwardOutOfOrder});
  }

  // The outermost region around an op; nullptr where there is none.
  const Region* region_around(OpId op) const {
    for (const Region& region : plan_.regions) {
      const std::int32_t position = position_[index(op)];
      if (region.begin <= position && position < region.end) return &region;
    }
    return nullptr;
  }

  ValidationResult check_recomputed_ops() const {
    for (const std::size_t step : steps_of(StepKind::kRecompute)) {
      const OpId op = schedule_.steps[step].op;
      if (region_around(op) == nullptr) return fault_at(Fault::kRecomputeOutsideRegion, step);
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
        if (producer == kNoOp || kept_[index(tensor)] || recomputed[index(producer)] ||
            graph_.op(producer).recompute == RecomputePolicy::kNever) {
          continue;
        }
        const Region* region = region_around(producer);
        if (region == nullptr || region != region_around(step.op)) continue;
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
    for (const std::size_t step : steps_of(StepKind::kRecompute)) {
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
    std::vector<std::size_t> group;  // Recomputes since the last Compute or Backward
    for (std::size_t i = 0; i < schedule_.steps.size(); ++i) {
      const Step& step = schedule_.steps[i];
      if (step.kind == StepKind::kRecompute) group.push_back(i);
      if (step.kind != StepKind::kCompute && step.kind != StepKind::kBackward) continue;
      std::vector<OpId> expected;
      for (const RegionRule& rule : rules_) {
        if (step.kind != StepKind::kBackward || rule.trigger != position_[index(step.op)]) continue;
        expected.insert(expected.end(), rule.ops.begin(), rule.ops.end());
      }
      std::vector<OpId> found;
      for (const std::size_t recompute : group) found.push_back(schedule_.steps[recompute].op);
      if (found != expected) {
        const std::size_t at = group.empty() ? i : group[0];
        std::sort(found.begin(), found.end());
        std::sort(expected.begin(), expected.end());
        return fault_at(
            found == expected ? Fault::kRecomputeOutOfOrder : Fault::kRecomputeAtWrongTrigger, at);
      }
      group.clear();
    }
    if (!group.empty()) return fault_at(Fault::kRecomputeAtWrongTrigger, group[0]);
    return {};
  }

  const Graph& graph_;
  const Plan& plan_;
  const std::vector<RegionRule>& rules_;
  const Schedule& schedule_;
  std::vector<std::int32_t> position_;
  std::vector<bool> kept_;
};

}  // namespace

ValidationResult check_order(const Graph& graph, const Plan& plan,
                             const std::vector<RegionRule>& rules, const Schedule& schedule) {
  return OrderCheck(graph, plan, rules, schedule).run();
}

}  // namespace cairn
