#include "graph/graph.h"

#include <set>

#include "graph/checked.h"
#include "graph/error.h"
#include "graph/ops/op_kind.h"

namespace cairn {
namespace {

// How many experts each token takes, of an op with their weights: the last dim of the indices that
// the op which sorted its rows read. 0 where nothing sorted them.
std::int64_t experts_per_token(const Graph& graph, const Op& op) {
  for (const TensorId input : op.inputs) {
    const OpId producer = graph.tensor(input).producer;
    if (producer == kNoOp) continue;
    const Op& sorter = graph.op(producer);
    if (sorter.attributes.experts != op.attributes.experts || sorter.kind == nullptr) continue;
    if (sorter.kind->parameters != nullptr || sorter.kind->integer_inputs.empty()) continue;
    const Tensor& indices = graph.tensor(sorter.inputs[sorter.kind->integer_inputs[0]]);
    return indices.shape.empty() ? 0 : indices.shape.back();
  }
  return 0;
}

}  // namespace

std::optional<std::int64_t> known_time_ns(const Cost& cost) {
  return cost.measured_ns ? cost.measured_ns : cost.time_ns;
}

bool is_view(const Graph& graph, TensorId tensor) {
  return graph.storage(graph.tensor(tensor).storage).owner != tensor;
}

bool is_resident(const Tensor& tensor) {
  return tensor.role == TensorRole::kInput || tensor.role == TensorRole::kParameter;
}

std::int64_t parameter_count(const Graph& graph) {
  std::int64_t count = 0;
  for (const Tensor& tensor : graph.tensors) {
    if (tensor.role != TensorRole::kParameter || tensor.is_buffer || tensor.shape.empty()) continue;
    count = checked_add(count, element_count(tensor.shape, tensor.name), "parameters");
  }
  return count;
}

std::int64_t trainable_parameter_count(const Graph& graph) {
  std::int64_t count = 0;
  for (const Tensor& tensor : graph.tensors) {
    if (tensor.role != TensorRole::kParameter || !tensor.requires_grad) continue;
    if (!tensor.shape.empty()) count += element_count(tensor.shape, tensor.name);
  }
  return count;
}

std::int64_t active_parameter_count(const Graph& graph) {
  std::int64_t count = parameter_count(graph);
  std::set<TensorId> counted;
  for (const Op& op : graph.ops) {
    if (op.attributes.experts == 0) continue;
    const std::int64_t taken = experts_per_token(graph, op);
    if (taken == 0) continue;
    for (const TensorId input : op.inputs) {
      const Tensor& tensor = graph.tensor(input);
      if (tensor.role != TensorRole::kParameter || !counted.insert(input).second) continue;
      const std::int64_t of_one_expert =
          element_count(tensor.shape, tensor.name) / op.attributes.experts;
      count -= of_one_expert * (op.attributes.experts - taken);
    }
  }
  return count;
}

std::int64_t parameter_bytes(const Graph& graph) {
  std::int64_t bytes = 0;
  for (const Tensor& tensor : graph.tensors) {
    if (tensor.role == TensorRole::kParameter) {
      bytes = checked_add(bytes, tensor.bytes, "bytes of the parameters");
    }
  }
  return bytes;
}

std::int64_t gradient_bytes(const Graph& graph) {
  std::int64_t bytes = 0;
  for (const Tensor& tensor : graph.tensors) {
    if (tensor.role != TensorRole::kParameter || !tensor.has_gradient) continue;
    bytes = checked_add(bytes, tensor.bytes, "bytes of the gradients of parameters");
  }
  return bytes;
}

std::int64_t optimizer_state_bytes(const Graph& graph) {
  std::int64_t bytes = 0;
  for (const Tensor& tensor : graph.tensors) {
    bytes = checked_add(bytes, tensor.optimizer_state_bytes, "bytes of the optimizer states");
  }
  return bytes;
}

std::int64_t optimizer_paged_bytes(const Graph& graph) {
  std::int64_t bytes = 0;
  for (const Tensor& tensor : graph.tensors) {
    bytes = checked_add(bytes, tensor.optimizer_paged_bytes, "bytes of paged optimizer states");
  }
  return bytes;
}

std::int64_t master_weight_bytes(const Graph& graph) {
  std::int64_t bytes = 0;
  for (const Tensor& tensor : graph.tensors) {
    bytes = checked_add(bytes, tensor.master_weight_bytes, "bytes of the master weights");
  }
  return bytes;
}

std::int64_t main_gradient_bytes(const Graph& graph) {
  std::int64_t bytes = 0;
  for (const Tensor& tensor : graph.tensors) {
    bytes = checked_add(bytes, tensor.main_gradient_bytes, "bytes of the main gradients");
  }
  return bytes;
}

std::int64_t element_count(const Shape& shape, const std::string& what) {
  std::int64_t count = 1;
  for (const std::int64_t extent : shape) {
    if (extent <= 0) {
      throw InputError("tensor '" + what + "': a dim is " + std::to_string(extent) +
                       "; every dim must be positive");
    }
    count = checked_multiply(count, extent, "tensor '{}': its number of elements", what);
  }
  return count;
}

std::int64_t tensor_bytes(DataType type, const Shape& shape, const std::string& what) {
  const std::int64_t count = element_count(shape, what);
  const std::int64_t bits = bits_per_element(type);
  if (bits < 8) return (count - 1) / (8 / bits) + 1;  // the last byte may be half full
  return checked_multiply(count, bits / 8, "tensor '{}': its bytes", what);
}

}  // namespace cairn
