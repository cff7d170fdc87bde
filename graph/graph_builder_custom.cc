#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "graph/error.h"
#include "graph/graph_builder.h"

// Ops that state everything themselves.

namespace cairn {

std::vector<TensorId> GraphBuilder::add_custom(const CustomOp& custom) {
  const auto id = static_cast<OpId>(graph_.ops.size());
  check_readable(custom.name, custom.inputs);
  Op op{.name = custom.name,
        .module = custom.module,
        .kind = find_op_kind("custom"),
        .block = custom.block,
        .inputs = custom.inputs,
        .workspace_bytes = custom.workspace_bytes,
        .backward_workspace_bytes = custom.backward_workspace_bytes,
        .sweep_workspace_bytes = custom.sweep_workspace_bytes,
        .forward = custom.forward,
        .backward = custom.backward,
        .recompute = custom.recompute,
        .side_effect = custom.side_effect,
        .in_place = custom.in_place,
        .saves_after_forward = custom.saves_after_forward};
  const bool requires_grad =
      std::any_of(custom.inputs.begin(), custom.inputs.end(),
                  [&](TensorId input) { return graph_.tensor(input).requires_grad; });
  const auto add = [&](const CustomTensor& made, TensorRole role) {
    if (made.view_of != kNoTensor && std::find(custom.inputs.begin(), custom.inputs.end(),
                                               made.view_of) == custom.inputs.end()) {
      throw InputError(
          fmt::format("tensor '{}': it is a view of '{}', which is not an input of op '{}'",
                      made.name, graph_.tensor(made.view_of).name, custom.name));
    }
    return add_tensor({.name = made.name,
                       .bytes = made.bytes,
                       .role = role,
                       .producer = id,
                       .requires_grad = role == TensorRole::kOutput && requires_grad},
                      made.view_of);
  };
  for (const CustomTensor& made : custom.outputs) {
    op.outputs.push_back(add(made, TensorRole::kOutput));
  }
  for (const CustomTensor& made : custom.auxiliaries) {
    op.auxiliaries.push_back(add(made, TensorRole::kAuxiliary));
  }
  std::vector<TensorId> sorted_inputs = op.inputs;
  std::sort(sorted_inputs.begin(), sorted_inputs.end());
  const auto of_this_op = [&](const std::string& name, bool inputs_only, const char* what) {
    const TensorId found = find(name);
    if (std::binary_search(sorted_inputs.begin(), sorted_inputs.end(), found)) return found;
    if (!inputs_only && found != kNoTensor && graph_.tensor(found).producer == id) return found;
    std::vector<TensorId> known = op.inputs;
    if (!inputs_only) {
      known.insert(known.end(), op.outputs.begin(), op.outputs.end());
      known.insert(known.end(), op.auxiliaries.begin(), op.auxiliaries.end());
    }
    std::vector<std::string> names;
    for (const TensorId tensor : known) names.push_back(graph_.tensor(tensor).name);
    throw InputError(fmt::format("op '{}': it {} '{}', which is not {}{}", custom.name, what, name,
                                 inputs_only ? "one of its inputs" : "one of its own tensors",
                                 did_you_mean(name, names)));
  };
  for (const std::string& name : custom.saved) op.saved.push_back(of_this_op(name, false, "saves"));
  std::sort(op.saved.begin(), op.saved.end());
  op.saved.erase(std::unique(op.saved.begin(), op.saved.end()), op.saved.end());
  op.gradient_aliases.assign(op.inputs.size(), false);
  for (const std::string& name : custom.gradient_aliases) {
    const TensorId aliased = of_this_op(name, true, "aliases the gradient of");
    if (op.outputs.empty() || graph_.tensor(aliased).bytes != graph_.tensor(op.outputs[0]).bytes) {
      throw InputError(
          fmt::format("op '{}': the gradient of '{}' cannot alias that of the output: "
                      "their bytes differ",
                      custom.name, name));
    }
    for (std::size_t i = 0; i < op.inputs.size(); ++i) {
      if (op.inputs[i] == aliased) op.gradient_aliases[i] = true;
    }
  }
  op.gradient_places.assign(op.inputs.size(), kNoTensor);
  for (const auto& [input, place] : custom.gradient_places) {
    const TensorId of = of_this_op(input, true, "places the gradient of");
    for (std::size_t i = 0; i < op.inputs.size(); ++i) {
      if (op.inputs[i] == of) op.gradient_places[i] = of_this_op(place, false, "overwrites");
    }
  }
  op.gradient_views.assign(op.inputs.size(), false);
  for (const std::string& name : custom.gradient_views) {
    const TensorId viewed = of_this_op(name, true, "makes a view as the gradient of");
    for (std::size_t i = 0; i < op.inputs.size(); ++i) {
      if (op.inputs[i] == viewed) op.gradient_views[i] = true;
    }
  }
  if (op.in_place &&
      (op.outputs.empty() || op.inputs.empty() || custom.outputs[0].view_of != op.inputs[0])) {
    throw InputError(fmt::format(
        "op '{}': an in-place op's first output must be a view of its first input", custom.name));
  }
  std::vector<TensorId> outputs = op.outputs;
  finish_op(std::move(op));
  return outputs;
}

}  // namespace cairn
