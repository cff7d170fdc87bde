#pragma once

#include <chrono>
#include <cstdint>
#include <limits>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>

#include "graph/data_type.h"

// Where an executor's tensors live and its kernels run: the one interface between what a schedule
// says and a machine. A device knows bytes and kernels; it knows no graph, no tensor's life and no
// limit but its own.
//
// Work is done in the order it is handed over. What is handed over may still run when a call
// returns; `synchronize` waits for it.

namespace cairn {

// The machine's fault, not the input's: no such device, no memory left, a kernel that failed.
class DeviceError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// c = a b, or c = c + a b; each matrix is [rows, columns] with unit stride along columns, and is
// read transposed where it says so. All have the same floating type. `count` products of one shape,
// their matrices one behind another by the batch strides, of which those of a and b may be 0.
struct MatrixProduct {
  DataType type = DataType::kFloat32;
  const void* a = nullptr;
  const void* b = nullptr;
  void* c = nullptr;
  std::int64_t rows = 0;     // of c
  std::int64_t columns = 0;  // of c
  std::int64_t inner = 0;
  bool a_is_transposed = false;   // a is [inner, rows]
  bool b_is_transposed = false;   // b is [columns, inner]
  std::int64_t a_row_stride = 0;  // in elements
  std::int64_t b_row_stride = 0;
  std::int64_t c_row_stride = 0;
  bool adds = false;
  std::int64_t count = 1;
  std::int64_t a_batch_stride = 0;  // in elements
  std::int64_t b_batch_stride = 0;
  std::int64_t c_batch_stride = 0;
};

// One of the products, of which `all` has `count`.
MatrixProduct product_of_batch(const MatrixProduct& all, std::int64_t i);

class Device {
 public:
  Device() = default;
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;
  virtual ~Device() = default;

  virtual std::string name() const = 0;
  // At least one byte, aligned for every type; throws DeviceError when there is no memory.
  virtual void* allocate(std::int64_t bytes) = 0;
  virtual void release(void* data) noexcept = 0;
  virtual void copy_in(void* to, const void* from, std::int64_t bytes) = 0;  // from the host
  virtual void copy_out(void* to, const void* from, std::int64_t bytes) = 0;
  virtual void fill(void* data, std::uint8_t byte, std::int64_t bytes) = 0;
  // Runs functor(i) for every i of [0, count), in any order and at once. `place` is the functor's
  // in AllFunctors (functors/list.h).
  virtual void launch(int place, const void* functor, std::int64_t count) = 0;
  virtual void multiply(const MatrixProduct& product) = 0;
  virtual void synchronize() = 0;
  // A mark behind all that was handed over so far, and the time from one to a later one, by the
  // device's own clock. Only the last 1,000 marks can be asked for.
  virtual std::int64_t mark();
  virtual std::int64_t elapsed_ns(std::int64_t begin, std::int64_t end);
  // Returns when all that was handed over is done, and not before `ns` have passed since `begin`.
  // By the host's clock on every device: between two marks they have passed by the device's own
  // too.
  virtual void wait_since(std::chrono::steady_clock::time_point begin, std::int64_t ns);
  // Of the process: its resident set, or what it uses of the device's memory.
  virtual std::int64_t footprint_bytes() const = 0;
  // The largest since begin_footprint_peak, where the machine counts that; else what is now.
  virtual void begin_footprint_peak() {}
  virtual std::int64_t peak_footprint_bytes() const { return footprint_bytes(); }
  // That the process can still take.
  virtual std::int64_t available_bytes() const { return std::numeric_limits<std::int64_t>::max(); }
};

std::unique_ptr<Device> make_cpu_device();

}  // namespace cairn
