#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

// Element types of tensors. A type says how wide an element is; what autograd does with it is the
// op kinds' business. NF4 and FP4 elements are half a byte, two to a byte.

namespace cairn {

enum class DataType {
  kFloat32,
  kBFloat16,
  kFloat16,
  kInt64,
  kInt32,
  kBool,
  kInt8,
  kUInt8,
  kNf4,
  kFp4,
  kFloat64  // of what an executor checks its kernels with
};

std::int64_t bits_per_element(DataType type);
// Of a type whose elements are whole bytes.
std::int64_t bytes_per_element(DataType type);
bool is_floating(DataType type);

// What torch computes in where two floating types meet (c10/core/ScalarType.cpp, promoteTypes).
DataType promoted_type(DataType a, DataType b);

// Short names: fp32, bf16, fp16, int64, int32, bool, int8, uint8, nf4, fp4, fp64.
std::string_view data_type_name(DataType type);
std::optional<DataType> find_data_type(std::string_view name);
// Those that an op may make: all but fp64 and those that only weights are stored in.
std::vector<std::string> data_type_names();

}  // namespace cairn
