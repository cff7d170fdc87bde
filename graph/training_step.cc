#include "graph/training_step.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "graph/checked.h"
#include "graph/error.h"

namespace cairn {
namespace {

// Parameters that get a gradient, part by part in the graph's order; the optimizer skips all
// others.
std::vector<TensorId> stepped_parameters(const Graph& graph) {
  std::vector<TensorId> parameters;
  for (std::size_t i = 0; i < graph.tensors.size(); ++i) {
    const Tensor& tensor = graph.tensors[i];
    if (tensor.role != TensorRole::kParameter || !tensor.has_gradient) continue;
    parameters.push_back(static_cast<TensorId>(i));
  }
  std::stable_sort(parameters.begin(), parameters.end(), [&](TensorId a, TensorId b) {
    return graph.tensor(a).optimizer_part < graph.tensor(b).optimizer_part;
  });
  return parameters;
}

Step optimizer_step(std::size_t group, std::int32_t micro_batch) {
  return {.kind = StepKind::kOptimizerStep,
          .group = static_cast<std::int32_t>(group),
          .micro_batch = micro_batch};
}

std::vector<Step> in_micro_batch(std::vector<Step> steps, std::int32_t micro_batch) {
  for (Step& step : steps) step.micro_batch = micro_batch;
  return steps;
}

// A micro-batch's inputs go before the next one's come, and their gradients with them.
std::vector<Step> frees_of_input_gradients(const Graph& graph) {
  std::vector<Step> frees;
  for (std::size_t i = 0; i < graph.tensors.size(); ++i) {
    const Tensor& tensor = graph.tensors[i];
    if (tensor.role != TensorRole::kInput || !tensor.has_gradient) continue;
    frees.push_back({.kind = StepKind::kFreeGradient, .tensor = static_cast<TensorId>(i)});
  }
  return frees;
}

void append(std::vector<Step>& steps, const std::vector<Step>& more) {
  steps.insert(steps.end(), more.begin(), more.end());
}

bool has_main_gradients(const Graph& graph) {
  return std::any_of(graph.tensors.begin(), graph.tensors.end(),
                     [](const Tensor& tensor) { return tensor.main_gradient_bytes > 0; });
}

// By op: the parameters whose gradients its Backward completes, being the last that contributes.
std::vector<std::vector<TensorId>> completed_parameters(const Graph& graph, const Schedule& pass) {
  std::vector<std::vector<TensorId>> completed_by(graph.ops.size());
  std::vector<bool> is_completed(graph.tensors.size(), false);
  for (auto step = pass.steps.rbegin(); step != pass.steps.rend(); ++step) {
    if (step->kind != StepKind::kBackward) continue;
    for (const TensorId input : graph.op(step->op).inputs) {
      const Tensor& tensor = graph.tensor(input);
      if (tensor.role != TensorRole::kParameter || !tensor.has_gradient) continue;
      if (is_completed[index(input)]) continue;
      is_completed[index(input)] = true;
      completed_by[index(step->op)].push_back(input);
    }
  }
  return completed_by;
}

// Behind the Backward that completes a parameter's gradient stands its end, and before that, where
// the optimizer steps in backward, its OptimizerStep.
Schedule end_in_backward(const Graph& graph, Schedule pass, bool with_optimizer) {
  const std::vector<std::vector<TensorId>> completed_by = completed_parameters(graph, pass);
  std::vector<Step> steps;
  OpId completing = kNoOp;  // the Backward whose frees are being copied
  const auto finish = [&] {
    if (completing == kNoOp) return;
    for (const TensorId parameter : completed_by[index(completing)]) {
      if (with_optimizer) {
        steps.push_back(optimizer_step(pass.groups.size(), 0));
        pass.groups.push_back({.parameters = {parameter}});
      }
      steps.push_back({.kind = StepKind::kFreeGradient, .tensor = parameter});
    }
    completing = kNoOp;
  };
  for (const Step& step : pass.steps) {
    if (!is_free(step.kind)) finish();
    steps.push_back(step);
    if (step.kind == StepKind::kBackward) completing = step.op;
  }
  finish();
  pass.steps = std::move(steps);
  return pass;
}

}  // namespace

Schedule lower_training_step(const Graph& graph, const TrainingStep& step, Schedule pass) {
  CAIRN_CHECK(step.micro_batches >= 1, "a training step has at least one micro-batch");
  if (step.optimizer_in_backward) {
    CAIRN_CHECK(step.micro_batches == 1, "an optimizer in backward cannot wait for micro-batches");
    return end_in_backward(graph, std::move(pass), true);
  }
  const bool in_main_gradients = has_main_gradients(graph);
  Schedule schedule =
      in_main_gradients ? end_in_backward(graph, std::move(pass), false) : std::move(pass);
  schedule.micro_batches = step.micro_batches;
  if (step.micro_batches > 1) {
    std::vector<Step> later = in_micro_batch(schedule.steps, 1);
    append(schedule.steps, frees_of_input_gradients(graph));
    append(schedule.steps, later);
  }
  std::vector<TensorId> parameters = stepped_parameters(graph);
  if (parameters.empty()) return schedule;
  const std::int32_t micro_batch = step.micro_batches > 1 ? 1 : 0;
  schedule.steps.push_back(optimizer_step(schedule.groups.size(), micro_batch));
  if (!step.keeps_gradients && !in_main_gradients) {
    for (const TensorId parameter : parameters) {
      schedule.steps.push_back(
          {.kind = StepKind::kFreeGradient, .tensor = parameter, .micro_batch = micro_batch});
    }
  }
  schedule.groups.push_back({.parameters = std::move(parameters),
                             .at_once = step.optimizer_loop == OptimizerLoop::kForeach});
  return schedule;
}

bool keeps_gradients(const Graph& graph, const Schedule& schedule) {
  return !schedule.groups.empty() && schedule.steps.back().kind == StepKind::kOptimizerStep &&
         !has_main_gradients(graph);
}

std::int64_t optimizer_workspace_bytes(const Graph& graph, const ParameterGroup& group,
                                       bool makes_states) {
  constexpr std::string_view kWhat = "temporaries of the optimizer";
  const std::vector<TensorId>& parameters = group.parameters;
  std::int64_t missing_bytes = 0;  // of states that are still to be made
  if (makes_states) {
    for (const TensorId id : parameters) missing_bytes += graph.tensor(id).optimizer_state_bytes;
  }
  std::int64_t most_bytes = 0;
  std::int64_t all_bytes = 0;
  const Tensor none = {};
  const Tensor* last = &none;
  std::size_t made_count = 0;
  for (const TensorId id : parameters) {
    const Tensor& parameter = graph.tensor(id);
    for (; makes_states && made_count < parameters.size(); ++made_count) {
      const Tensor& made = graph.tensor(parameters[made_count]);
      if (made.optimizer_part > parameter.optimizer_part) break;
      missing_bytes -= made.optimizer_state_bytes;
    }
    all_bytes = checked_add(all_bytes, parameter.optimizer_temporary_bytes, kWhat);
    const std::int64_t early_bytes =
        parameter.optimizer_early_temporary_bytes == 0
            ? 0
            : checked_add(last->optimizer_early_carried_bytes,
                          parameter.optimizer_early_temporary_bytes, kWhat);
    const std::int64_t bytes =
        checked_add(last->optimizer_carried_bytes, parameter.optimizer_temporary_bytes, kWhat);
    most_bytes = std::max(most_bytes, std::max(early_bytes, bytes) - missing_bytes);
    last = &parameter;
  }
  return group.at_once ? all_bytes : most_bytes;
}

std::string_view optimizer_loop_name(OptimizerLoop loop) {
  switch (loop) {
    case OptimizerLoop::kFused:
      return "fused";
    case OptimizerLoop::kForeach:
      return "foreach";
    case OptimizerLoop::kForLoop:
      return "for-loop";
  }
  CAIRN_CHECK(false, "unknown optimizer loop");
}

}  // namespace cairn
