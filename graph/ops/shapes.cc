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

std::int64_t sum(const OpContext& op, std::initializer_list<std::int64_t> bytes) {
  std::int64_t result = 0;
  for (const std::int64_t part : bytes) {
    result = checked_add(result, part, "op '{}'", op.name);
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

std::int64_t part_width(const OpContext& op, const Tensor& tensor, std::int64_t count,
                        std::string_view parts) {
  const std::int64_t width = last_dim(op, tensor);
  if (width % count == 0) return width / count;
  refuse(op, fmt::format("the width {} of '{}' does not divide into {} {}", width, tensor.name,
                         count, parts));
}

void check_same_rows(const OpContext& op, const Tensor& a, const Tensor& b) {
  last_dim(op, a);  // there has to be one
  last_dim(op, b);
  if (with_last_dim(a.shape, 1) == with_last_dim(b.shape, 1)) return;
  refuse(op, fmt::format("'{}' {} and '{}' {} differ outside the last dim", a.name,
                         shape_text(a.shape), b.name, shape_text(b.shape)));
}

OpDerivation whole_view(const OpContext& op, Shape shape) {
  return {.outputs = {{.data_type = op.inputs[0]->data_type,
                       .shape = std::move(shape),
                       .view_of_input = 0}},
          .gradient_alias_inputs = {0}};
}

OpDerivation partial_view(const OpContext& op, Shape shape) {
  OpDerivation result = whole_view(op, std::move(shape));
  result.gradient_alias_inputs.clear();
  result.backward.moved_bytes = op.inputs[0]->bytes;
  return result;
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
