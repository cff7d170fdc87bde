#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "sim/validator_groups.h"
#include "sim/validator_memory.h"

// Compares the frees of a schedule with the lives that the rules give.

namespace cairn {
namespace {

struct FreeFaults {
  Fault lasting = Fault::kNone;
  Fault unmade = Fault::kNone;
  Fault early = Fault::kNone;
  Fault late = Fault::kNone;
  Fault twice = Fault::kNone;
  Fault missing = Fault::kNone;
};

// Compares the Free (or FreeGradient) steps with the lives.
class FreeCheck {
 public:
  FreeCheck(const Graph& graph, const Schedule& schedule, const std::vector<Run>& runs,
            StepKind kind, const std::vector<TensorLife>& lives, const FreeFaults& faults)
      : graph_(graph),
        schedule_(schedule),
        runs_(runs),
        kind_(kind),
        lives_(lives),
        faults_(faults),
        ended_(ended_by_run()),
        due_count_(graph.tensors.size(), 0) {}

  ValidationResult run() {
    for (std::size_t step = 0; step < first_behind(0); ++step) {
      if (schedule_.steps[step].kind != kind_) continue;
      return fault_at(faults_.unmade, step, schedule_.steps[step].tensor);
    }
    for (std::size_t run = 0; run < runs_.size(); ++run) {
      ValidationResult result = check_behind(run);
      if (result.fault != Fault::kNone) return result;
    }
    return {};
  }

 private:
  // The steps behind run i are [runs_[i].step + 1, first_behind(i + 1)).
  std::size_t first_behind(std::size_t run) const {
    return run < runs_.size() ? runs_[run].step : schedule_.steps.size();
  }

  // Inputs and parameters; a gradient that no free is due for.
  bool lasts(TensorId tensor) const {
    if (kind_ == StepKind::kFree) return graph_.tensor(tensor).producer == kNoOp;
    return std::any_of(lives_.begin(), lives_.end(), [&](const TensorLife& life) {
      return life.tensor == tensor && life.outlives;
    });
  }

  bool is_due(const TensorLife& life) const {
    return kind_ == StepKind::kFree ? !lasts(life.tensor) : !life.outlives;
  }

  // By run: the lives whose free is due behind it.
  Groups ended_by_run() const {
    std::vector<Member> members;
    members.reserve(lives_.size());
    for (std::size_t i = 0; i < lives_.size(); ++i) {
      if (is_due(lives_[i])) members.push_back({.group = lives_[i].life.last, .value = i});
    }
    return Groups(runs_.size(), members);
  }

  ValidationResult fault_at(Fault fault, std::size_t step, TensorId tensor) const {
    return {.fault = fault,
            .step = step,
            .message = fmt::format("step {}, tensor '{}': {}", step, graph_.tensor(tensor).name,
                                   fault_name(fault))};
  }

  ValidationResult check_behind(std::size_t run) {
    for (const std::size_t life : ended_[run]) ++due_count_[index(lives_[life].tensor)];
    for (std::size_t step = runs_[run].step + 1; step < first_behind(run + 1); ++step) {
      if (schedule_.steps[step].kind != kind_) continue;
      const TensorId tensor = schedule_.steps[step].tensor;
      if (due_count_[index(tensor)] == 0) return fault_at(why_not_due(tensor, run), step, tensor);
      --due_count_[index(tensor)];
    }
    TensorId not_freed_yet = kNoTensor;  // the first of the graph, where there are several
    for (const std::size_t life : ended_[run]) {
      const TensorId tensor = lives_[life].tensor;
      if (due_count_[index(tensor)] == 0) continue;
      if (not_freed_yet == kNoTensor || tensor < not_freed_yet) not_freed_yet = tensor;
    }
    return not_freed_yet == kNoTensor ? ValidationResult{} : not_freed(not_freed_yet, run);
  }

  Fault why_not_due(TensorId tensor, std::size_t run) const {
    if (lasts(tensor)) return faults_.lasting;
    bool made = false;
    for (const auto& [of, life, outlives] : lives_) {
      if (of != tensor) continue;
      if (life.first <= run && run < life.last) return faults_.early;
      made = made || life.first <= run;
    }
    return made ? faults_.twice : faults_.unmade;
  }

  // Late when a free of this copy follows before the next copy is made.
  ValidationResult not_freed(TensorId tensor, std::size_t run) const {
    std::size_t until = runs_.size();
    for (const auto& [of, life, outlives] : lives_) {
      if (of == tensor && life.first > run) until = std::min(until, life.first);
    }
    for (std::size_t step = runs_[run].step + 1; step < first_behind(until); ++step) {
      if (schedule_.steps[step].kind == kind_ && schedule_.steps[step].tensor == tensor) {
        return fault_at(faults_.late, step, tensor);
      }
    }
    return fault_at(faults_.missing, runs_[run].step, tensor);
  }

  const Graph& graph_;
  const Schedule& schedule_;
  const std::vector<Run>& runs_;
  const StepKind kind_;
  const std::vector<TensorLife>& lives_;
  const FreeFaults faults_;
  Groups ended_;
  std::vector<std::int32_t> due_count_;  // by tensor: frees still due behind the run in work
};

}  // namespace

ValidationResult check_frees(const Graph& graph, const Schedule& schedule,
                             const std::vector<Run>& runs, const std::vector<TensorLife>& lives) {
  return FreeCheck(graph, schedule, runs, StepKind::kFree, lives,
                   {.lasting = Fault::kFreeOfResident,
                    .unmade = Fault::kFreeOfUnmade,
                    .early = Fault::kFreeTooEarly,
                    .late = Fault::kFreeTooLate,
                    .twice = Fault::kFreeTwice,
                    .missing = Fault::kMissingFree})
      .run();
}

ValidationResult check_gradient_frees(const Graph& graph, const Schedule& schedule,
                                      const std::vector<Run>& runs,
                                      const std::vector<TensorLife>& lives) {
  return FreeCheck(graph, schedule, runs, StepKind::kFreeGradient, lives,
                   {.lasting = Fault::kGradientFreeOfLasting,
                    .unmade = Fault::kGradientFreeOfUnmade,
                    .early = Fault::kGradientFreeTooEarly,
                    .late = Fault::kGradientFreeTooLate,
                    .twice = Fault::kGradientFreeTwice,
                    .missing = Fault::kMissingGradientFree})
      .run();
}

}  // namespace cairn
