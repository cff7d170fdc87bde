#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "graph/checked.h"
#include "graph/error.h"
#include "graph/graph_builder.h"

// Parameters, and what the optimizer keeps for each.

namespace cairn {

// What the optimizer keeps for a trainable parameter: states, and with master weights a copy of it,
// which the states are then like.
Tensor GraphBuilder::with_optimizer_bytes(Tensor parameter) const {
  if (!parameter.requires_grad) return parameter;
  std::int64_t bytes = parameter.bytes;
  if (precision_.master_type) {
    bytes = checked_multiply(bytes / bytes_per_element(parameter.data_type),
                             bytes_per_element(*precision_.master_type),
                             "parameter '{}': its master copy", parameter.name);
    parameter.master_weight_bytes = bytes;
  }
  const auto times = [&](std::int64_t count, std::string_view what) {
    return checked_multiply(bytes, count, what, parameter.name);
  };
  constexpr std::string_view kTemporaries = "parameter '{}': temporaries of the optimizer";
  parameter.optimizer_state_bytes =
      times(optimizer_.state_count, "parameter '{}': optimizer states");
  parameter.optimizer_temporary_bytes = times(optimizer_.temporary_count, kTemporaries);
  parameter.optimizer_carried_bytes = times(optimizer_.carried_count, kTemporaries);
  return parameter;
}

TensorId GraphBuilder::add_parameter(const std::string& name, DataType type, Shape shape,
                                     bool trainable) {
  const std::int64_t bytes = tensor_bytes(type, shape, name);
  return add_tensor(with_optimizer_bytes({.name = name,
                                          .data_type = type,
                                          .shape = std::move(shape),
                                          .bytes = bytes,
                                          .role = TensorRole::kParameter,
                                          .requires_grad = trainable}),
                    kNoTensor);
}

TensorId GraphBuilder::add_parameter_bytes(const std::string& name, std::int64_t bytes,
                                           bool trainable) {
  return add_tensor(with_optimizer_bytes({.name = name,
                                          .bytes = bytes,
                                          .role = TensorRole::kParameter,
                                          .requires_grad = trainable}),
                    kNoTensor);
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
        const std::string& owner =
            request.parameters_of.empty() ? request.name : request.parameters_of;
        const std::string name = owner + "." + sketch.suffix;
        const bool trainable = trainable_ && !frozen_.contains(name);
        parameters.push_back(
            add_parameter(name, precision_.parameter_type, sketch.shape, trainable));
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

}  // namespace cairn
