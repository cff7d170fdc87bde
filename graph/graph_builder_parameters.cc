#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "graph/checked.h"
#include "graph/error.h"
#include "graph/graph_builder.h"

// Parameters, and what the optimizer keeps for each.

namespace cairn {

// What the optimizer keeps and makes for a trainable parameter: with master weights a copy, which
// all the rest is then like.
TensorId GraphBuilder::add_parameter_tensor(Tensor tensor) {
  tensor.role = TensorRole::kParameter;
  if (tensor.requires_grad) {
    std::int64_t bytes = tensor.bytes;
    if (precision_.master_type) {
      bytes = checked_multiply(bytes / bytes_per_element(tensor.data_type),
                               bytes_per_element(*precision_.master_type),
                               "parameter '{}': its master copy", tensor.name);
      tensor.master_weight_bytes = bytes;
    }
    const auto times = [&](std::int64_t count, std::string_view what) {
      return checked_multiply(bytes, count, what, tensor.name);
    };
    constexpr std::string_view kTemporaries = "parameter '{}': temporaries of the optimizer";
    tensor.optimizer_state_bytes =
        times(optimizer_.state_count, "parameter '{}': optimizer states");
    tensor.optimizer_temporary_bytes = times(optimizer_.temporary_count, kTemporaries);
    tensor.optimizer_carried_bytes = times(optimizer_.carried_count, kTemporaries);
  }
  return add_tensor(std::move(tensor), kNoTensor);
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

// A parameter of the op alone. PEFT keeps what it trains a copy of beside it (peft 0.21.2,
// utils/other.py: ModulesToSaveWrapper).
TensorId GraphBuilder::add_own_parameter(const OpRequest& request, const TensorSketch& sketch) {
  const std::string& owner = request.parameters_of.empty() ? request.name : request.parameters_of;
  const std::string name = owner + "." + sketch.suffix;
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
