#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "executor/array.h"
#include "executor/device.h"

// Every byte an executor takes from its device, counted where it is taken. It must outlive its
// blocks.

namespace cairn {

// The limit that a user set does not hold one more block.
class MemoryLimitError : public DeviceError {
 public:
  using DeviceError::DeviceError;
};

class Memory {
 public:
  explicit Memory(Device& device, std::optional<std::int64_t> limit_bytes = {})
      : device_(device), limit_bytes_(limit_bytes) {}
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  // Throws MemoryLimitError, or the device's DeviceError.
  std::shared_ptr<Block> allocate(std::int64_t bytes);
  Array make(DataType type, const Shape& shape, std::int64_t tail_bytes = 0);
  Array make_like(const Array& array) { return make(array.type, array.shape, array.tail_bytes); }
  Array make_zeros(DataType type, const Shape& shape);
  Array make_zeros_like(const Array& array) { return make_zeros(array.type, array.shape); }
  // As many bytes: fp32 numbers, and what is left of them.
  Array make_bytes(std::int64_t bytes) { return make(DataType::kFloat32, {bytes / 4}, bytes % 4); }

  // What is freed is overwritten with bytes that are NaN as a number of any floating type.
  void poison_freed(bool poisons) { poisons_ = poisons; }

  std::int64_t live_bytes() const { return live_bytes_; }
  // The largest live_bytes since the last begin_peak.
  std::int64_t peak_bytes() const { return peak_bytes_; }
  void begin_peak() { peak_bytes_ = live_bytes_; }

  Device& device() const { return device_; }

 private:
  void release(Block* block) noexcept;

  Device& device_;
  std::optional<std::int64_t> limit_bytes_ = {};
  std::int64_t live_bytes_ = 0;
  std::int64_t peak_bytes_ = 0;
  bool poisons_ = false;
};

}  // namespace cairn
