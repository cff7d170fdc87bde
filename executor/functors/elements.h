#pragma once

#include <cstdint>
#include <cstring>

#include "executor/functors/host_device.h"
#include "graph/data_type.h"

// Elements of a tensor in device memory, by their index in row-major order, whatever their type and
// strides. Not a tensor: nothing here owns memory. A broadcast dim has stride 0.

namespace cairn {

inline constexpr int kMaxRank = 6;

CAIRN_HOST_DEVICE inline float float_of_bf16(std::uint16_t bits) {
  const std::uint32_t wide = static_cast<std::uint32_t>(bits) << 16;
  float value;
  std::memcpy(&value, &wide, sizeof(value));
  return value;
}

// Rounds to nearest, ties to even; a NaN stays one.
CAIRN_HOST_DEVICE inline std::uint16_t bf16_of_float(float value) {
  std::uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  if ((bits & 0x7fffffffU) > 0x7f800000U) return 0x7fc0U;
  bits += 0x7fffU + ((bits >> 16) & 1U);
  return static_cast<std::uint16_t>(bits >> 16);
}

// Element p in memory, as Real, which is float, or double where a tensor is of that type.
template <class Real>
CAIRN_HOST_DEVICE Real element_as(const void* data, DataType type, std::int64_t p) {
  switch (type) {
    case DataType::kFloat32:
      return static_cast<Real>(static_cast<const float*>(data)[p]);
    case DataType::kBFloat16:
      return static_cast<Real>(float_of_bf16(static_cast<const std::uint16_t*>(data)[p]));
    case DataType::kFloat64:
      return static_cast<Real>(static_cast<const double*>(data)[p]);
    case DataType::kBool:
      return static_cast<Real>(static_cast<const std::uint8_t*>(data)[p]);
    default:
      return Real(0);
  }
}

struct Elements {
  void* data = nullptr;
  DataType type = DataType::kFloat32;
  bool is_dense = true;  // element i is the i-th in memory
  int rank = 0;
  std::int64_t shape[kMaxRank] = {};
  std::int64_t strides[kMaxRank] = {};  // in elements

  CAIRN_HOST_DEVICE std::int64_t position(std::int64_t i) const {
    return is_dense ? i : strided_position(i);
  }

  CAIRN_HOST_DEVICE_CALL std::int64_t strided_position(std::int64_t i) const {
    std::int64_t position = 0;
    for (int dim = rank - 1; dim >= 0; --dim) {
      const std::int64_t rest = i / shape[dim];
      position += (i - rest * shape[dim]) * strides[dim];
      i = rest;
    }
    return position;
  }

  // As Real, which is float, or double where a tensor is of that type.
  template <class Real>
  CAIRN_HOST_DEVICE Real get(std::int64_t i) const {
    if (is_dense_float()) return static_cast<Real>(static_cast<const float*>(data)[i]);
    return get_any<Real>(i);
  }

  template <class Real>
  CAIRN_HOST_DEVICE void set(std::int64_t i, Real value) const {
    if (is_dense_float()) {
      static_cast<float*>(data)[i] = static_cast<float>(value);
    } else {
      set_any<Real>(i, value);
    }
  }

  // What is met most often, for a compiler to see it in a loop.
  CAIRN_HOST_DEVICE bool is_dense_float() const { return is_dense && type == DataType::kFloat32; }

  template <class Real>
  CAIRN_HOST_DEVICE_CALL Real get_any(std::int64_t i) const {
    return element_as<Real>(data, type, position(i));
  }

  template <class Real>
  CAIRN_HOST_DEVICE_CALL void set_any(std::int64_t i, Real value) const {
    const std::int64_t p = position(i);
    switch (type) {
      case DataType::kFloat32:
        static_cast<float*>(data)[p] = static_cast<float>(value);
        return;
      case DataType::kBFloat16:
        static_cast<std::uint16_t*>(data)[p] = bf16_of_float(static_cast<float>(value));
        return;
      case DataType::kFloat64:
        static_cast<double*>(data)[p] = static_cast<double>(value);
        return;
      case DataType::kBool:
        static_cast<std::uint8_t*>(data)[p] = value != Real(0) ? 1 : 0;
        return;
      default:
        return;
    }
  }

  CAIRN_HOST_DEVICE std::int64_t integer(std::int64_t i) const {
    const std::int64_t p = position(i);
    if (type == DataType::kInt32) return static_cast<const std::int32_t*>(data)[p];
    if (type == DataType::kBool) return static_cast<const std::uint8_t*>(data)[p];
    return static_cast<const std::int64_t*>(data)[p];
  }

  CAIRN_HOST_DEVICE void set_integer(std::int64_t i, std::int64_t value) const {
    const std::int64_t p = position(i);
    if (type == DataType::kInt32) {
      static_cast<std::int32_t*>(data)[p] = static_cast<std::int32_t>(value);
    } else if (type == DataType::kBool) {
      static_cast<std::uint8_t*>(data)[p] = value != 0 ? 1 : 0;
    } else {
      static_cast<std::int64_t*>(data)[p] = value;
    }
  }
};

}  // namespace cairn
