#include "executor/device.h"

#include <chrono>

namespace cairn {
namespace {

std::int64_t bytes_between(std::int64_t elements, DataType type) {
  return elements * bytes_per_element(type);
}

}  // namespace

MatrixProduct product_of_batch(const MatrixProduct& all, std::int64_t i) {
  MatrixProduct one = all;
  one.count = 1;
  one.a = static_cast<const char*>(all.a) + bytes_between(i * all.a_batch_stride, all.type);
  one.b = static_cast<const char*>(all.b) + bytes_between(i * all.b_batch_stride, all.type);
  one.c = static_cast<char*>(all.c) + bytes_between(i * all.c_batch_stride, all.type);
  return one;
}

std::int64_t Device::mark() {
  synchronize();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

std::int64_t Device::elapsed_ns(std::int64_t begin, std::int64_t end) { return end - begin; }

void Device::wait_since(std::chrono::steady_clock::time_point begin, std::int64_t ns) {
  synchronize();
  // In a loop: what sleeps wakes up late.
  while (std::chrono::steady_clock::now() - begin < std::chrono::nanoseconds(ns)) continue;
}

}  // namespace cairn
