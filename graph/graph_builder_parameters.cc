#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "graph/checked.h"
#include "graph/error.h"
#include "graph/graph_builder.h"

// Parameters, and what the optimizer keeps for each.

namespace cairn {

// What the optimizer sees of it, but for its uses.
SteppedParameter GraphBuilder::stepped(const Tensor& tensor) const {
  const bool has_master = tensor.master_weight_bytes > 0;
  return {.name = tensor.name,
          .shape = tensor.shape,
          .type = has_master ? *precision_.master_type : tensor.data_type,
          .bytes = has_master ? tensor.master_weight_bytes : tensor.bytes};
}

// Of a trainable parameter there may be a copy, master weights, and a buffer for its gradient.
TensorId GraphBuilder::add_parameter_tensor(Tensor tensor) {
  tensor.role = TensorRole::kParameter;
  const auto bytes_in = [&](DataType type, std::string_view what) {
    return checked_multiply(tensor.bytes / bytes_per_element(tensor.data_type),
                            bytes_per_element(type), what, tensor.name);
  };
  if (tensor.requires_grad && precision_.master_type) {
    tensor.master_weight_bytes =
        bytes_in(*precision_.master_type, "parameter '{}': its master copy");
  }
  if (tensor.requires_grad && optimizer_.main_gradient_type) {
    tensor.main_gradient_bytes =
        bytes_in(*optimizer_.main_gradient_type, "parameter '{}': its main gradient");
  }
  // Throws here, at the parameter's place, where its bytes are too many.
  if (tensor.requires_grad && optimizer_.bytes_of) optimizer_.bytes_of(stepped(tensor));
  return add_tensor(std::move(tensor), kNoTensor);
}

namespace {

// What is looked up in, and what makes the logits, by tensor.
struct ParameterUses {
  std::vector<bool> is_table = {};
  std::vector<bool> is_head = {};
};

ParameterUses parameter_uses(const Graph& graph) {
  ParameterUses uses{.is_table = std::vector<bool>(graph.tensors.size(), false),
                     .is_head = std::vector<bool>(graph.tensors.size(), false)};
  for (const Op& op : graph.ops) {
    const auto is_logits = [&](TensorId id) { return graph.tensor(id).is_logits; };
    const bool is_table = op.kind->name == "embedding";
    const bool is_head = std::any_of(op.outputs.begin(), op.outputs.end(), is_logits) &&
                         std::none_of(op.inputs.begin(), op.inputs.end(), is_logits);
    if (!is_table && !is_head) continue;
    for (const TensorId input : op.inputs) {
      if (graph.tensor(input).role != TensorRole::kParameter) continue;
      (is_table ? uses.is_table : uses.is_head)[index(input)] = true;
    }
  }
  return uses;
}

}  // namespace

// Of the parameters that get a gradient: the optimizer skips all others.
void GraphBuilder::add_optimizer_bytes() {
  if (!optimizer_.bytes_of) return;
  const ParameterUses uses = parameter_uses(graph_);
  bool has_shared_states = false;
  std::vector<TensorId> in_order;
  for (std::size_t i = 0; i < graph_.tensors.size(); ++i) {
    Tensor& tensor = graph_.tensors[i];
    if (tensor.role != TensorRole::kParameter || !tensor.has_gradient) continue;
    SteppedParameter parameter = stepped(tensor);
    parameter.is_table = uses.is_table[i];
    parameter.is_head = uses.is_head[i];
    const OptimizerBytes bytes = optimizer_.bytes_of(parameter);
    tensor.optimizer_state_bytes = bytes.state_bytes;
    if (bytes.shared_state_bytes > 0 && !(has_shared_states && !optimizer_.is_per_parameter)) {
      tensor.optimizer_state_bytes =
          checked_add(bytes.state_bytes, bytes.shared_state_bytes, "bytes of the optimizer states");
      has_shared_states = true;
    }
    tensor.optimizer_paged_bytes = bytes.paged_state_bytes;
    tensor.optimizer_early_temporary_bytes = bytes.early_temporary_bytes;
    tensor.optimizer_early_carried_bytes = bytes.early_carried_bytes;
    tensor.optimizer_temporary_bytes = bytes.temporary_bytes;
    tensor.optimizer_carried_bytes = bytes.carried_bytes;
    tensor.optimizer_part = bytes.part;
    in_order.push_back(static_cast<TensorId>(i));
  }
  if (!optimizer_.makes_states_one_by_one) return;
  std::stable_sort(in_order.begin(), in_order.end(), [&](TensorId a, TensorId b) {
    return graph_.tensor(a).optimizer_part < graph_.tensor(b).optimizer_part;
  });
  for (std::size_t i = 0; i < in_order.size(); ++i) {
    graph_.tensors[index(in_order[i])].optimizer_part = static_cast<std::int64_t>(i);
  }
}

TensorId GraphBuilder::add_parameter(const std::string& name, DataType type, Shape shape,
                                     bool trainable) {
  const std::int64_t bytes = tensor_bytes(type, shape, name);
  return add_parameter_tensor({.name = name,
                               .data_type = type,
                               .shape = std::move(shape),
                               .bytes = bytes,
                               .requires_grad = trainable});
}

TensorId GraphBuilder::add_parameter_bytes(const std::string& name, std::int64_t bytes,
                                           bool trainable) {
  return add_parameter_tensor({.name = name, .bytes = bytes, .requires_grad = trainable});
}

// The op's own, or that of an op before it whose parameters have the same owner. PEFT keeps what it
// trains a copy of beside it (peft 0.21.2, utils/other.py: ModulesToSaveWrapper).
TensorId GraphBuilder::add_own_parameter(const OpRequest& request, const TensorSketch& sketch) {
  const std::string& owner = request.parameters_of.empty() ? request.name : request.parameters_of;
  const std::string name = owner + "." + sketch.suffix;
  if (!request.parameters_of.empty()) {
    if (const TensorId made = find(name); made != kNoTensor) return made;
  }
  const bool trainable =
      (trainable_ || request.is_trained) && !sketch.is_stored && !frozen_.contains(name);
  const DataType type = sketch.is_stored
                            ? sketch.data_type
                            : request.parameter_type.value_or(precision_.parameter_type);
  const TensorId parameter = add_parameter(name, type, sketch.shape, trainable);
  graph_.tensors[index(parameter)].is_buffer = sketch.is_buffer;
  return parameter;
}

// The op's parameters, made or shared, in the order its kind asks for them.
std::vector<TensorId> GraphBuilder::add_parameters(const OpRequest& request) {
  std::vector<TensorId> parameters;
  std::size_t shared_count = 0;
  if (request.kind->parameters != nullptr) {
    const std::vector<const Tensor*> inputs = tensors_of(request.inputs);
    const std::vector<const Tensor*> no_parameters;
    const std::vector<TensorSketch> sketches =
        request.kind->parameters({request.name, request.attributes, inputs, no_parameters});
    for (const TensorSketch& sketch : sketches) {
      const auto shared =
          std::find_if(request.shared_parameters.begin(), request.shared_parameters.end(),
                       [&](const auto& entry) { return entry.first == sketch.suffix; });
      if (shared == request.shared_parameters.end()) {
        parameters.push_back(add_own_parameter(request, sketch));
        continue;
      }
      const Tensor& parameter = graph_.tensor(shared->second);
      if (parameter.shape != sketch.shape) {
        throw InputError(fmt::format("op '{}': its {} cannot be '{}': the shapes differ",
                                     request.name, sketch.suffix, parameter.name));
      }
      parameters.push_back(shared->second);
      ++shared_count;
    }
  }
  if (shared_count < request.shared_parameters.size()) {
    throw InputError(fmt::format("op '{}': this {} has no parameter '{}' to share", request.name,
                                 request.kind->name, request.shared_parameters.front().first));
  }
  return parameters;
}

// A trained copy of each, of its own type.
void GraphBuilder::copy_parameters(const OpRequest& request, std::vector<TensorId>& parameters) {
  for (TensorId& parameter : parameters) {
    const Tensor original = tensor(parameter);
    if (!is_floating(original.data_type)) {
      throw InputError(fmt::format(
          "op '{}': its weight is quantised, so no copy of it can be trained", request.name));
    }
    OpRequest copy{.name = request.name,
                   .parameters_of = request.parameters_of,
                   .parameter_type = original.data_type,
                   .is_trained = true};
    const std::string suffix = original.name.substr(original.name.rfind('.') + 1);
    parameter =
        add_own_parameter(copy, {.suffix = "modules_to_save." + suffix, .shape = original.shape});
  }
}

}  // namespace cairn
