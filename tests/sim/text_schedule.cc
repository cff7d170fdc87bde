#include "tests/sim/text_schedule.h"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>
#include <vector>

#include "graph/error.h"

namespace cairn {
namespace {

template <typename Named>
std::size_t find_name(const std::vector<Named>& all, const std::string& name) {
  const auto found =
      std::find_if(all.begin(), all.end(), [&](const Named& each) { return each.name == name; });
  CAIRN_CHECK(found != all.end(), name);
  return static_cast<std::size_t>(found - all.begin());
}

StepKind kind_of_letter(const std::string& letter) {
  if (letter == "C") return StepKind::kCompute;
  if (letter == "R") return StepKind::kRecompute;
  if (letter == "B") return StepKind::kBackward;
  if (letter == "F") return StepKind::kFree;
  CAIRN_CHECK(letter == "FG", letter);
  return StepKind::kFreeGradient;
}

std::string tensor_list(const Graph& graph, const std::vector<TensorId>& tensors) {
  std::string text;
  for (const TensorId id : tensors) {
    const Tensor& tensor = graph.tensor(id);
    text += fmt::format(" {}:{}{}{}", tensor.name, tensor.bytes, tensor.has_gradient ? "g" : "",
                        is_view(graph, id) ? "v" : "");
    if (tensor.held_until != kNoOp) text += "until " + graph.op(tensor.held_until).name;
  }
  return text;
}

std::string regions_text(const Graph& graph, const Plan& plan, const std::vector<Region>& regions,
                         std::int32_t begin, std::int32_t end) {
  std::string text;
  const auto add_ops = [&](std::int32_t to) {
    for (; begin < to; ++begin) {
      text += graph.op(plan.order[static_cast<std::size_t>(begin)]).name + " ";
    }
  };
  for (const Region& region : regions) {
    add_ops(region.begin);
    text += "( " + regions_text(graph, plan, region.inner, region.begin, region.end);
    if (!region.keep.empty()) text += "keep" + tensor_list(graph, region.keep) + " ";
    text += ") ";
    begin = region.end;
  }
  add_ops(end);
  return text;
}

}  // namespace

Schedule schedule_from_text(const Graph& graph, std::string_view text) {
  Schedule schedule;
  std::istringstream words{std::string(text)};
  std::string letter;
  std::string name;
  while (words >> letter >> name) {
    Step step{.kind = kind_of_letter(letter)};
    if (step.kind == StepKind::kFree || step.kind == StepKind::kFreeGradient) {
      step.tensor = static_cast<TensorId>(find_name(graph.tensors, name));
    } else {
      step.op = static_cast<OpId>(find_name(graph.ops, name));
    }
    schedule.steps.push_back(step);
  }
  return schedule;
}

std::string schedule_text(const Graph& graph, const Schedule& schedule) {
  std::string text;
  for (const Step& step : schedule.steps) text += step_text(graph, step) + "  ";
  return text;
}

std::string graph_text(const Graph& graph) {
  std::string text;
  for (const Op& op : graph.ops) {
    std::vector<TensorId> aliased;
    for (std::size_t i = 0; i < op.inputs.size(); ++i) {
      if (op.gradient_aliases[i]) aliased.push_back(op.inputs[i]);
    }
    std::vector<TensorId> viewed;
    for (std::size_t i = 0; i < op.inputs.size(); ++i) {
      if (op.gradient_views[i]) viewed.push_back(op.inputs[i]);
      if (op.gradient_places[i] == kNoTensor) continue;
      text += fmt::format("gradient of {} over {}: ", graph.tensor(op.inputs[i]).name,
                          graph.tensor(op.gradient_places[i]).name);
    }
    text += fmt::format(
        "{} <-{} ->{} aux{} saves{} aliases{} views{} workspace {} backward {} sweep {}{}\n",
        op.name, tensor_list(graph, op.inputs), tensor_list(graph, op.outputs),
        tensor_list(graph, op.auxiliaries), tensor_list(graph, op.saved),
        tensor_list(graph, aliased), tensor_list(graph, viewed), op.workspace_bytes,
        op.backward_workspace_bytes, op.sweep_workspace_bytes.value_or(-1),
        op.recompute == RecomputePolicy::kNever ? " never" : "");
  }
  return text;
}

std::string plan_text(const Graph& graph, const Plan& plan) {
  return fmt::format(
      "{}: {}\n", extent_name(plan.extent),
      regions_text(graph, plan, plan.regions, 0, static_cast<std::int32_t>(plan.order.size())));
}

}  // namespace cairn
