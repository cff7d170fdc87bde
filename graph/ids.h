#pragma once

#include <cstddef>
#include <cstdint>

// Distinct ids: an OpId never stands where a TensorId is meant. Each is the index of its struct in
// the Graph's vector of that name.

namespace cairn {

enum class OpId : std::int32_t {};
enum class TensorId : std::int32_t {};
enum class StorageId : std::int32_t {};

inline constexpr OpId kNoOp{-1};
inline constexpr TensorId kNoTensor{-1};

constexpr std::size_t index(OpId id) { return static_cast<std::size_t>(id); }
constexpr std::size_t index(TensorId id) { return static_cast<std::size_t>(id); }
constexpr std::size_t index(StorageId id) { return static_cast<std::size_t>(id); }

}  // namespace cairn
