#include "tests/graph/op_text.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "graph/error.h"
#include "graph/graph_builder.h"
#include "graph/ops/op_kind.h"
#include "graph/ops/shapes.h"

namespace cairn {
namespace {

std::string tensor_text(const Tensor& tensor) {
  return fmt::format("{} {}", data_type_name(tensor.data_type), shape_text(tensor.shape));
}

std::string names_text(const Graph& graph, const std::vector<TensorId>& ids) {
  std::string text;
  for (const TensorId id : ids) text += (text.empty() ? "" : " ") + graph.tensor(id).name;
  return text;
}

}  // namespace

Graph graph_of(const std::string& kind, const OpAttributes& attributes,
               const std::vector<Given>& inputs, bool trainable) {
  GraphBuilder builder("one op", DataType::kBFloat16);
  builder.set_trainable(trainable);
  OpRequest request{.name = "out", .kind = find_op_kind(kind), .attributes = attributes};
  REQUIRE(request.kind != nullptr);
  for (const Given& given : inputs) {
    request.inputs.push_back(
        builder.add_input(given.name, given.type, given.shape, given.requires_grad));
  }
  return builder.build(builder.add_op(request)[0]);
}

std::string derived(const std::string& kind, const OpAttributes& attributes,
                    const std::vector<Given>& inputs, bool trainable) {
  const Graph graph = graph_of(kind, attributes, inputs, trainable);
  return derived_text(graph, graph.ops.back());
}

std::string derived_text(const Graph& graph, const Op& op) {
  std::string text;
  for (const TensorId id : op.outputs) {
    text += (text.empty() ? "" : ", ") + tensor_text(graph.tensor(id));
    if (is_view(graph, id)) text += " view";
  }
  for (const TensorId id : op.auxiliaries) {
    text += fmt::format(" | aux: {} {}", graph.tensor(id).name, tensor_text(graph.tensor(id)));
  }
  if (!op.saved.empty()) text += " | saves: " + names_text(graph, op.saved);
  std::vector<TensorId> aliased;
  for (std::size_t i = 0; i < op.inputs.size(); ++i) {
    if (op.gradient_aliases[i]) aliased.push_back(op.inputs[i]);
  }
  if (!aliased.empty()) text += " | aliases: " + names_text(graph, aliased);
  std::string places;
  for (std::size_t i = 0; i < op.inputs.size(); ++i) {
    if (op.gradient_places[i] == kNoTensor) continue;
    places += fmt::format(" {} over {}", graph.tensor(op.inputs[i]).name,
                          graph.tensor(op.gradient_places[i]).name);
  }
  if (!places.empty()) text += " | gradients:" + places;
  return text;
}

std::string costs(const std::string& kind, const OpAttributes& attributes,
                  const std::vector<Given>& inputs, bool trainable) {
  const Graph graph = graph_of(kind, attributes, inputs, trainable);
  const Op& op = graph.ops.back();
  std::string text =
      fmt::format("flops {} / {}, moved {} / {}", op.forward.flops, op.backward.flops,
                  op.forward.moved_bytes, op.backward.moved_bytes);
  if (op.forward.executed_flops != op.forward.flops) {
    text +=
        fmt::format(", executed {} / {}", op.forward.executed_flops, op.backward.executed_flops);
  }
  if (op.workspace_bytes + op.backward_workspace_bytes > 0) {
    text += fmt::format(", workspace {} / {}", op.workspace_bytes, op.backward_workspace_bytes);
  }
  return text;
}

std::string refusal(const std::string& kind, const OpAttributes& attributes,
                    const std::vector<Given>& inputs) {
  try {
    graph_of(kind, attributes, inputs, true);
  } catch (const InputError& error) {
    return error.what();
  }
  return "accepted";
}

}  // namespace cairn
