#include "graph/ops/shapes.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "graph/checked.h"
#include "graph/error.h"

namespace cairn {

std::int64_t last_dim(const OpContext& op, const Tensor& tensor) {
  if (tensor.shape.empty()) {
    refuse(op, fmt::format("its input '{}' states no shape", tensor.name));
  }
  return tensor.shape.back();
}

Shape with_last_dim(Shape shape, std::int64_t extent) {
  shape.back() = extent;
  return shape;
}

std::int64_t product(const OpContext& op, std::initializer_list<std::int64_t> factors) {
  std::int64_t result = 1;
  for (const std::int64_t factor : factors) {
    result = checked_multiply(result, factor, "op '{}'", op.name);
  }
  return result;
}

ImageDims image_dims(const OpContext& op, const Tensor& tensor) {
  if (tensor.shape.size() != 4) {
    refuse(op, fmt::format("'{}' must be [batch, channels, height, width], found {}", tensor.name,
                           shape_text(tensor.shape)));
  }
  return {.batch = tensor.shape[0],
          .channels = tensor.shape[1],
          .height = tensor.shape[2],
          .width = tensor.shape[3]};
}

std::int64_t row_count(const OpContext& op, const Tensor& tensor) {
  return element_count(tensor.shape, tensor.name) / last_dim(op, tensor);
}

void refuse(const OpContext& op, const std::string& complaint) {
  throw InputError("op '" + op.name + "': " + complaint);
}

std::string shape_text(const Shape& shape) { return fmt::format("[{}]", fmt::join(shape, ", ")); }

Cost memory_bound_cost() { return {.kernel_count = 1}; }

void over_first_input(const OpContext& op, OpDerivation& derivation) {
  const std::int64_t bytes = op.inputs[0]->bytes;
  derivation.in_place = true;
  derivation.outputs[0].view_of_input = 0;
  const auto tensors = static_cast<std::int64_t>(op.inputs.size()) + 1;
  derivation.forward.moved_bytes = product(op, {tensors, bytes});
  derivation.backward.moved_bytes =
      product(op, {tensors + static_cast<std::int64_t>(derivation.saved.outputs.size()), bytes});
}

Cost matmul_cost(std::int64_t flops, std::int64_t kernel_count) {
  return {.flops = flops, .executed_flops = flops, .kernel_count = kernel_count, .is_matmul = true};
}

}  // namespace cairn
