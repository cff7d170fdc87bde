#include "executor/kernel.h"

#include <algorithm>
#include <map>

#include "executor/kernels/kernels.h"
#include "graph/error.h"

namespace cairn {

const Kernel* find_kernel(std::string_view kind) {
  static const std::map<std::string_view, Kernel> kKernels = [] {
    std::map<std::string_view, Kernel> all;
    for (const auto& some :
         {pointwise_kernels(), binary_kernels(), row_kernels(), norm_kernels(), linear_kernels(),
          table_kernels(), attention_kernels(), loss_kernels(), layout_kernels(), image_kernels(),
          gated_kernels(), head_kernels(), token_kernels(), expert_kernels(), adapter_kernels(),
          linear_loss_kernels(), custom_kernels()}) {
      for (const Kernel& kernel : some) all.emplace(kernel.kind, kernel);
    }
    return all;
  }();
  const auto found = kKernels.find(kind);
  return found == kKernels.end() ? nullptr : &found->second;
}

std::string refuse_without_constant(const Graph&, const Op& op) {
  return op.attributes.constant ? "" : "no 'constant' is stated";
}

DataType statistics_type(DataType type) {
  return type == DataType::kFloat64 ? type : DataType::kFloat32;
}

namespace {

// The broadcast dims of an operand lie together: before, behind or around the others.
struct SumDims {
  std::int64_t outer = 1;
  std::int64_t kept = 1;
  std::int64_t inner = 1;
};

SumDims sum_dims(const Shape& shape, const Shape& operand) {
  SumDims dims;
  const std::size_t missing = shape.size() - operand.size();
  bool has_kept = false;
  for (std::size_t dim = 0; dim < shape.size(); ++dim) {
    const bool is_summed = dim < missing || operand[dim - missing] != shape[dim];
    if (!is_summed) {
      CAIRN_CHECK(dims.inner == 1 || shape[dim] == 1, "summed dims between kept ones");
      dims.kept *= shape[dim];
      has_kept = has_kept || shape[dim] != 1;
    } else {
      (has_kept ? dims.inner : dims.outer) *= shape[dim];
    }
  }
  return dims;
}

}  // namespace

Array summed_to(Memory& memory, const Array& gradient, const Array& operand) {
  const bool is_whole = has_same_shape(gradient, operand);
  if (is_whole && gradient.type == operand.type) return gradient;
  const Array out = memory.make(operand.type, operand.shape);
  if (is_whole) {
    apply(memory, out, gradient, Same{});
    return out;
  }
  const SumDims dims = sum_dims(gradient.shape, operand.shape);
  with_real(out.type, [&](auto real) {
    launch(memory.device(), dims.kept,
           OuterSum<decltype(real)>{elements(out), elements(gradient), dims.outer, dims.kept,
                                    dims.inner});
  });
  return out;
}

namespace {

struct Matrix {
  const void* data = nullptr;
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::int64_t row_stride = 0;
  bool is_transposed = false;
};

// The matrix of the last two dims; one whose rows lie apart and columns together is read
// transposed.
Matrix matrix_of(const Array& array, const void* data) {
  const std::size_t rank = array.shape.size();
  Matrix matrix{.data = data,
                .rows = array.shape[rank - 2],
                .columns = array.shape[rank - 1],
                .row_stride = array.strides[rank - 2]};
  if (array.strides[rank - 1] == 1 || matrix.columns == 1) {
    matrix.row_stride = std::max(matrix.row_stride, matrix.columns);
    return matrix;
  }
  CAIRN_CHECK(array.strides[rank - 2] == 1 || matrix.rows == 1, "a matrix without a dense dim");
  matrix.row_stride = std::max(array.strides[rank - 1], matrix.rows);
  matrix.is_transposed = true;
  return matrix;
}

// Where the matrix of each index over the leading dims begins.
std::vector<Array> matrices(const Array& array) {
  Array matrix = array;
  const std::size_t leading = array.shape.size() - 2;
  matrix.shape.erase(matrix.shape.begin(),
                     matrix.shape.begin() + static_cast<std::ptrdiff_t>(leading));
  matrix.strides.erase(matrix.strides.begin(),
                       matrix.strides.begin() + static_cast<std::ptrdiff_t>(leading));
  std::int64_t count = 1;
  for (std::size_t dim = 0; dim < leading; ++dim) count *= array.shape[dim];
  std::vector<Array> result;
  for (std::int64_t i = 0; i < count; ++i) {
    std::int64_t rest = i;
    matrix.first = array.first;
    for (std::size_t dim = leading; dim-- > 0;) {
      matrix.first += rest % array.shape[dim] * array.strides[dim];
      rest /= array.shape[dim];
    }
    result.push_back(matrix);
  }
  return result;
}

std::int64_t distance_behind(const std::vector<Array>& all, std::size_t i) {
  return i + 1 < all.size() ? all[i + 1].first - all[i].first : 0;
}

// How many from `begin` on lie at one distance of each other, not against the order.
std::size_t evenly_spaced(const std::vector<Array>& all, std::size_t begin) {
  const std::int64_t distance = distance_behind(all, begin);
  std::size_t end = begin + 1;
  while (end < all.size() && distance >= 0 && distance_behind(all, end - 1) == distance) ++end;
  return end - begin;
}

}  // namespace

void multiply(Memory& memory, const Array& a, bool a_is_transposed, const Array& b,
              bool b_is_transposed, const Array& c, bool adds) {
  const std::vector<Array> all_a = matrices(a);
  const std::vector<Array> all_b = matrices(b);
  const std::vector<Array> all_c = matrices(c);
  CAIRN_CHECK(all_a.size() == all_c.size() && all_b.size() == all_c.size(), "unlike batches");
  std::size_t count = 1;
  for (std::size_t i = 0; i < all_c.size(); i += count) {
    const Matrix ma = matrix_of(all_a[i], first_element(all_a[i]));
    const Matrix mb = matrix_of(all_b[i], first_element(all_b[i]));
    const Matrix mc = matrix_of(all_c[i], first_element(all_c[i]));
    CAIRN_CHECK(!mc.is_transposed, "a product into a transposed matrix");
    count = std::min({evenly_spaced(all_a, i), evenly_spaced(all_b, i), evenly_spaced(all_c, i)});
    memory.device().multiply({.type = c.type,
                              .a = ma.data,
                              .b = mb.data,
                              .c = first_element(all_c[i]),
                              .rows = mc.rows,
                              .columns = mc.columns,
                              .inner = a_is_transposed ? ma.rows : ma.columns,
                              .a_is_transposed = a_is_transposed != ma.is_transposed,
                              .b_is_transposed = b_is_transposed != mb.is_transposed,
                              .a_row_stride = ma.row_stride,
                              .b_row_stride = mb.row_stride,
                              .c_row_stride = mc.row_stride,
                              .adds = adds,
                              .count = static_cast<std::int64_t>(count),
                              .a_batch_stride = distance_behind(all_a, i),
                              .b_batch_stride = distance_behind(all_b, i),
                              .c_batch_stride = distance_behind(all_c, i)});
  }
}

}  // namespace cairn
