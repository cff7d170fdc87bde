#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "graph/ops/op_kind.h"

// Small helpers that op kinds share. Sizes are exact; a product past 2^63 - 1 throws InputError
// naming the op.

namespace cairn {

std::int64_t last_dim(const OpContext& op, const Tensor& tensor);

// `shape` with its last dim replaced.
Shape with_last_dim(Shape shape, std::int64_t extent);

// The product of some factors, the sum of some bytes, none negative.
std::int64_t product(const OpContext& op, std::initializer_list<std::int64_t> factors);
std::int64_t sum(const OpContext& op, std::initializer_list<std::int64_t> bytes);

// The dims of an image tensor.
struct ImageDims {
  std::int64_t batch = 0;
  std::int64_t channels = 0;
  std::int64_t height = 0;
  std::int64_t width = 0;
};
ImageDims image_dims(const OpContext& op, const Tensor& tensor);

// The last dim over `count` equal parts, which must fill it; `parts` names them: "heads".
std::int64_t part_width(const OpContext& op, const Tensor& tensor, std::int64_t count,
                        std::string_view parts);

// Refuses tensors that differ outside the last dim.
void check_same_rows(const OpContext& op, const Tensor& a, const Tensor& b);

// The first input's storage seen as `shape`: costs nothing, and its gradient passes by alias.
OpDerivation whole_view(const OpContext& op, Shape shape);

// A part of the first input: a view too, but the gradient of the whole is a new tensor, zero
// outside the part.
OpDerivation partial_view(const OpContext& op, Shape shape);

// Elements of a tensor over its last dim: tokens of [batch, tokens, width].
std::int64_t row_count(const OpContext& op, const Tensor& tensor);

// Throws InputError "op 'x': ..." with the kind's complaint.
[[noreturn]] void refuse(const OpContext& op, const std::string& complaint);

// "[2, 1024, 4096]"
std::string shape_text(const Shape& shape);

// Cost of a kernel that only moves memory.
Cost memory_bound_cost();

// Makes the op overwrite its first input with its only output. What it moves is stated, as a view
// moves nothing by itself: all inputs and the output, and in backward the gradients of the inputs
// that get one of their own, that of the output, and the saved output.
void over_first_input(const OpContext& op, OpDerivation& derivation);

// Cost of matrix products that count `flops`.
Cost matmul_cost(std::int64_t flops, std::int64_t kernel_count);

}  // namespace cairn
