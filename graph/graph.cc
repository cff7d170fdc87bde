#include "graph/graph.h"

#include "graph/checked.h"
#include "graph/error.h"

namespace cairn {

bool is_view(const Graph& graph, TensorId tensor) {
  return graph.storage(graph.tensor(tensor).storage).owner != tensor;
}

bool is_resident(const Tensor& tensor) {
  return tensor.role == TensorRole::kInput || tensor.role == TensorRole::kParameter;
}

std::int64_t parameter_count(const Graph& graph) {
  std::int64_t count = 0;
  for (const Tensor& tensor : graph.tensors) {
    if (tensor.role != TensorRole::kParameter || tensor.shape.empty()) continue;
    count = checked_add(count, element_count(tensor.shape, tensor.name), "parameters");
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

std::int64_t optimizer_state_bytes(const Graph& graph) {
  std::int64_t bytes = 0;
  for (const Tensor& tensor : graph.tensors) {
    bytes = checked_add(bytes, tensor.optimizer_state_bytes, "bytes of the optimizer states");
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

}  // namespace cairn
