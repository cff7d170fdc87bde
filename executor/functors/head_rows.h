#pragma once

#include <cstdint>

#include "executor/functors/elements.h"

// Rows of one head of a tensor [batch, tokens, heads, width]: row t is that of token t.

namespace cairn {

CAIRN_HOST_DEVICE inline std::int64_t first_of_head(const Elements& x, std::int64_t batch,
                                                    std::int64_t head) {
  return batch * x.strides[0] + head * x.strides[2];
}

CAIRN_HOST_DEVICE inline float number_of(float value) { return value; }
CAIRN_HOST_DEVICE inline double number_of(double value) { return value; }
CAIRN_HOST_DEVICE inline float number_of(std::uint16_t bf16) { return float_of_bf16(bf16); }

// Neighbours in memory, of a type that is known here: float, double, or bf16 by its bits. Compilers
// make vectors of loops over these.
template <class Number>
struct DenseRow {
  const Number* data = nullptr;

  template <class Real>
  CAIRN_HOST_DEVICE Real get(std::int64_t i) const {
    return static_cast<Real>(number_of(data[i]));
  }
};

template <class Number>
struct DenseRows {
  const Number* data = nullptr;
  std::int64_t row_stride = 0;

  CAIRN_HOST_DEVICE static DenseRows of(const Elements& x, std::int64_t batch, std::int64_t head) {
    return {static_cast<const Number*>(x.data) + first_of_head(x, batch, head), x.strides[1]};
  }
  CAIRN_HOST_DEVICE DenseRow<Number> operator[](std::int64_t row) const {
    return {data + row * row_stride};
  }
};

// Of any type and strides.
struct StridedRow {
  const void* data = nullptr;
  DataType type = DataType::kFloat32;
  std::int64_t first = 0;
  std::int64_t stride = 1;

  template <class Real>
  CAIRN_HOST_DEVICE Real get(std::int64_t i) const {
    return element_as<Real>(data, type, first + i * stride);
  }
};

struct StridedRows {
  StridedRow row_0 = {};
  std::int64_t row_stride = 0;

  CAIRN_HOST_DEVICE static StridedRows of(const Elements& x, std::int64_t batch,
                                          std::int64_t head) {
    return {{x.data, x.type, first_of_head(x, batch, head), x.strides[3]}, x.strides[1]};
  }
  CAIRN_HOST_DEVICE StridedRow operator[](std::int64_t row) const {
    return {row_0.data, row_0.type, row_0.first + row * row_stride, row_0.stride};
  }
};

// Lanes are summed on their own, and then in pairs: one order, whatever the machine.
inline constexpr int kDotLanes = 16;

template <class Real, class A, class B>
CAIRN_HOST_DEVICE Real dot(const A& a, const B& b, std::int64_t width) {
  Real lanes[kDotLanes] = {};
  std::int64_t i = 0;
  for (; i + kDotLanes <= width; i += kDotLanes) {
    for (int lane = 0; lane < kDotLanes; ++lane) {
      lanes[lane] += a.template get<Real>(i + lane) * b.template get<Real>(i + lane);
    }
  }
  for (; i < width; ++i) lanes[0] += a.template get<Real>(i) * b.template get<Real>(i);
  for (int half = kDotLanes / 2; half > 0; half /= 2) {
    for (int lane = 0; lane < half; ++lane) lanes[lane] += lanes[lane + half];
  }
  return lanes[0];
}

// sums += factor * row
template <class Real, class Row>
CAIRN_HOST_DEVICE void add_scaled(Real* sums, Real factor, const Row& row, std::int64_t width) {
  for (std::int64_t i = 0; i < width; ++i) sums[i] += factor * row.template get<Real>(i);
}

}  // namespace cairn
