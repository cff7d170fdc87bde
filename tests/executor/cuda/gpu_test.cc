// What can be seen on a GPU alone; skipped where there is none.

#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <numeric>
#include <vector>

#include "executor/device_list.h"
#include "executor/executor.h"
#include "executor/kernel.h"
#include "tests/executor/test_device.h"

namespace cairn {
namespace {

bool is_without_gpu() {
  try {
    make_device("cuda");
    return false;
  } catch (const DeviceError&) {
    return true;
  }
}

// Asked once: it makes a context.
bool skips() {
  static const bool kSkips = is_without_gpu();
  return kSkips;
}

TEST_CASE("gpu: bytes come back as they were copied and filled" * doctest::skip(skips())) {
  const std::unique_ptr<Device> device = make_device("cuda");
  std::vector<std::uint8_t> bytes(1000003);
  std::iota(bytes.begin(), bytes.end(), std::uint8_t{0});
  void* const data = device->allocate(static_cast<std::int64_t>(bytes.size()));
  device->copy_in(data, bytes.data(), static_cast<std::int64_t>(bytes.size()));
  device->fill(data, 0xFF, 5);
  std::vector<std::uint8_t> found(bytes.size());
  device->copy_out(found.data(), data, static_cast<std::int64_t>(found.size()));
  std::fill(bytes.begin(), bytes.begin() + 5, std::uint8_t{0xFF});
  CHECK(found == bytes);
  device->release(data);
}

TEST_CASE("gpu: the footprint is what is allocated, and none when all is released" *
          doctest::skip(skips())) {
  constexpr std::int64_t kBlockBytes = (std::int64_t{5} << 20) + 12345;
  constexpr std::int64_t kPageBytes = std::int64_t{2} << 20;
  const std::unique_ptr<Device> device = make_device("cuda");
  std::vector<void*> blocks;
  for (int i = 0; i < 400; ++i) blocks.push_back(device->allocate(kBlockBytes));
  // Every other one makes room for blocks of twice its size, without more memory.
  for (std::size_t i = 0; i < 400; i += 2) device->release(blocks[i]);
  for (std::size_t i = 0; i < 200; i += 2) blocks[i] = device->allocate(2 * kBlockBytes - 12345);
  device->synchronize();
  const double of_live = static_cast<double>(device->footprint_bytes()) / (400.0 * kBlockBytes);
  MESSAGE("footprint over live bytes: ", of_live);
  CHECK(of_live > 0.99);
  CHECK(of_live < 1.03);
  for (std::size_t i = 0; i < 400; ++i) {
    if (i < 200 || i % 2 == 1) device->release(blocks[i]);
  }
  CHECK(device->footprint_bytes() <= kPageBytes);
}

TEST_CASE("gpu: more memory than there is is refused, and the device goes on" *
          doctest::skip(skips())) {
  const std::unique_ptr<Device> device = make_device("cuda");
  CHECK_THROWS_AS(device->allocate(std::int64_t{1} << 50), DeviceError);
  void* const data = device->allocate(16);
  CHECK_NOTHROW(device->fill(data, 0, 16));
  CHECK_NOTHROW(device->synchronize());
  device->release(data);
}

TEST_CASE("gpu: time between marks is the device's" * doctest::skip(skips())) {
  const std::unique_ptr<Device> device = make_device("cuda");
  Memory memory(*device);
  const Array x = memory.make(DataType::kFloat32, {1 << 24});
  const std::int64_t begin = device->mark();
  for (int i = 0; i < 10; ++i) apply(memory, x, x, Constant{1.0});
  const std::int64_t end = device->mark();
  CHECK(device->elapsed_ns(begin, end) > 0);
  CHECK(device->elapsed_ns(begin, begin) == 0);
}

TEST_CASE("gpu: what the host waits for lies between two marks" * doctest::skip(skips())) {
  constexpr std::int64_t kWaitNs = 2'000'000;
  const std::unique_ptr<Device> device = make_device("cuda");
  std::int64_t shortest_ns = std::numeric_limits<std::int64_t>::max();
  for (int i = 0; i < 20; ++i) {
    const std::int64_t begin = device->mark();
    device->synchronize();
    device->wait_since(std::chrono::steady_clock::now(), kWaitNs);
    shortest_ns = std::min(shortest_ns, device->elapsed_ns(begin, device->mark()));
  }
  MESSAGE("2 ms of the host are ", shortest_ns, " ns of the GPU");
  CHECK(shortest_ns > kWaitNs * 99 / 100);  // two clocks
  CHECK(shortest_ns < kWaitNs * 11 / 10);
}

TEST_CASE("gpu: products of every type have the CPU's elements" * doctest::skip(skips())) {
  const std::unique_ptr<Device> twin = make_twin_device(make_device("cuda"));
  Memory memory(*twin);
  for (const DataType type : {DataType::kFloat32, DataType::kFloat64, DataType::kBFloat16}) {
    for (const bool transposes : {false, true}) {
      const Array a = memory.make(type, {3, 130, 257});
      const Array b = memory.make(type, {3, transposes ? 65 : 257, transposes ? 257 : 65});
      const Array c = memory.make(type, {3, 130, 65});
      with_real(type, [&](auto real) {
        launch(*twin, element_count(a), FillNormal<decltype(real)>{elements(a), 1, 1.0});
        launch(*twin, element_count(b), FillNormal<decltype(real)>{elements(b), 2, 1.0});
      });
      CHECK_NOTHROW(multiply(memory, a, false, b, transposes, c));
    }
  }
}

}  // namespace
}  // namespace cairn
