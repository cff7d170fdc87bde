#include "sim/validator_training.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

namespace cairn {
namespace {

ValidationResult fault_at(Fault fault, std::size_t step) {
  return {
      .fault = fault, .step = step, .message = fmt::format("step {}: {}", step, fault_name(fault))};
}

// Where the optimizer steps, and what it steps.
class OptimizerCheck {
 public:
  OptimizerCheck(const Graph& graph, const TrainingStep& step, const Schedule& schedule)
      : graph_(graph),
        step_(step),
        schedule_(schedule),
        stepped_at_(graph.tensors.size(), kNever) {}

  ValidationResult run() {
    for (std::size_t i = 0; i < schedule_.steps.size(); ++i) {
      if (schedule_.steps[i].kind != StepKind::kOptimizerStep) continue;
      ValidationResult result = check_group(i);
      if (result.fault != Fault::kNone) return result;
    }
    for (std::size_t i = 0; i < graph_.tensors.size(); ++i) {
      if (!is_due(static_cast<TensorId>(i)) || stepped_at_[i] != kNever) continue;
      return {.fault = Fault::kMissingOptimizerStep,
              .step = schedule_.steps.size(),
              .message = fmt::format("parameter '{}': {}", graph_.tensors[i].name,
                                     fault_name(Fault::kMissingOptimizerStep))};
    }
    return check_places();
  }

 private:
  static constexpr std::size_t kNever = static_cast<std::size_t>(-1);

  bool is_due(TensorId id) const {
    const Tensor& tensor = graph_.tensor(id);
    return tensor.role == TensorRole::kParameter && tensor.has_gradient;
  }

  ValidationResult check_group(std::size_t position) {
    const std::int32_t number = schedule_.steps[position].group;
    if (number < 0 || static_cast<std::size_t>(number) >= schedule_.groups.size()) {
      return fault_at(Fault::kUnknownStep, position);
    }
    const ParameterGroup& group = schedule_.groups[static_cast<std::size_t>(number)];
    const bool is_foreach = step_.optimizer_loop == OptimizerLoop::kForeach;
    if (group.at_once != is_foreach) return fault_at(Fault::kOptimizerGroup, position);
    if (step_.optimizer_in_backward && group.parameters.size() != 1) {
      return fault_at(Fault::kOptimizerGroup, position);
    }
    for (const TensorId parameter : group.parameters) {
      if (index(parameter) >= graph_.tensors.size() || !is_due(parameter)) {
        return fault_at(Fault::kOptimizerGroup, position);
      }
      if (stepped_at_[index(parameter)] != kNever) {
        return fault_at(Fault::kRepeatedOptimizerStep, position);
      }
      stepped_at_[index(parameter)] = position;
    }
    for (std::size_t i = 1; i < group.parameters.size(); ++i) {
      const std::int64_t part = graph_.tensor(group.parameters[i]).optimizer_part;
      const std::int64_t part_before = graph_.tensor(group.parameters[i - 1]).optimizer_part;
      if (part > part_before) continue;
      if (part < part_before || group.parameters[i] < group.parameters[i - 1]) {
        return fault_at(Fault::kOptimizerGroup, position);
      }
    }
    return {};
  }

  // No Backward behind it contributes; in backward, the one before it does.
  ValidationResult check_places() const {
    std::size_t last_backward = kNever;
    for (std::size_t i = 0; i < schedule_.steps.size(); ++i) {
      const Step& step = schedule_.steps[i];
      if (step.kind == StepKind::kBackward) {
        if (index(step.op) >= graph_.ops.size()) return fault_at(Fault::kUnknownStep, i);
        last_backward = i;
        for (const TensorId input : graph_.op(step.op).inputs) {
          if (is_due(input) && stepped_at_[index(input)] < i) {
            return fault_at(Fault::kOptimizerStepAtWrongPlace, stepped_at_[index(input)]);
          }
        }
      }
      if (step.kind != StepKind::kOptimizerStep) continue;
      const bool is_right = step_.optimizer_in_backward ? follows_its_backward(i, last_backward)
                                                        : only_frees_follow(i);
      if (!is_right) return fault_at(Fault::kOptimizerStepAtWrongPlace, i);
    }
    return {};
  }

  bool only_frees_follow(std::size_t position) const {
    const auto behind = schedule_.steps.begin() + static_cast<std::ptrdiff_t>(position) + 1;
    return std::all_of(behind, schedule_.steps.end(), [](const Step& step) {
      return step.kind == StepKind::kFree || step.kind == StepKind::kFreeGradient;
    });
  }

  bool follows_its_backward(std::size_t position, std::size_t backward) const {
    if (backward == kNever) return false;
    const ParameterGroup& group =
        schedule_.groups[static_cast<std::size_t>(schedule_.steps[position].group)];
    const std::vector<TensorId>& inputs = graph_.op(schedule_.steps[backward].op).inputs;
    if (std::find(inputs.begin(), inputs.end(), group.parameters[0]) == inputs.end()) return false;
    for (std::size_t i = backward + 1; i < position; ++i) {  // other frees and steps may be between
      const StepKind kind = schedule_.steps[i].kind;
      if (kind == StepKind::kCompute || kind == StepKind::kRecompute) return false;
    }
    return true;
  }

  const Graph& graph_;
  const TrainingStep& step_;
  const Schedule& schedule_;
  std::vector<std::size_t> stepped_at_;  // by tensor: position in the schedule
};

// The steps [begin, end) as a schedule of their own.
Schedule part_of(const Schedule& schedule, std::size_t begin, std::size_t end) {
  const auto first = schedule.steps.begin();
  return {.steps = {first + static_cast<std::ptrdiff_t>(begin),
                    first + static_cast<std::ptrdiff_t>(end)},
          .groups = schedule.groups};
}

}  // namespace

ValidationResult validate_training_step(const Graph& graph, const Plan& plan,
                                        const TrainingStep& step, const Schedule& schedule) {
  const auto is_later = [](const Step& entry) { return entry.micro_batch != 0; };
  const auto found = std::find_if(schedule.steps.begin(), schedule.steps.end(), is_later);
  const auto second = static_cast<std::size_t>(found - schedule.steps.begin());
  const bool has_second = found != schedule.steps.end();
  if (has_second != (step.micro_batches > 1) || schedule.micro_batches != step.micro_batches ||
      !std::all_of(found, schedule.steps.end(),
                   [](const Step& entry) { return entry.micro_batch == 1; })) {
    return fault_at(Fault::kMicroBatches, second);
  }
  const Schedule first_part = part_of(schedule, 0, second);
  const Schedule second_part = part_of(schedule, second, schedule.steps.size());
  std::vector<MicroBatchSchedule> parts = {{.schedule = &first_part}};
  parts[0].around = {.finds_gradients = step.keeps_gradients,
                     .adds_to_main_gradients = !step.optimizer_in_backward};
  if (has_second) {
    parts[0].around.leaves_input_gradients = false;
    parts.push_back({.schedule = &second_part,
                     .around = {.finds_gradients = true, .adds_to_main_gradients = true},
                     .first_step = second});
  }
  parts.back().around.leaves_gradients = step.keeps_gradients;
  ValidationResult optimizer = OptimizerCheck(graph, step, schedule).run();
  if (optimizer.fault != Fault::kNone) return optimizer;
  return validate_micro_batches(graph, plan, parts);
}

}  // namespace cairn
