#include "tests/executor/test_device.h"

#include <doctest/doctest.h>

#include <cstring>
#include <vector>

#include "executor/kernel.h"

namespace cairn {
namespace {

// Does what the CPU does, but for one bit of the first byte of each block that it copies out.
class FaultyDevice : public Device {
 public:
  explicit FaultyDevice(std::uint8_t flipped) : flipped_(flipped) {}
  std::string name() const override { return "faulty"; }
  void* allocate(std::int64_t bytes) override { return cpu_->allocate(bytes); }
  void release(void* data) noexcept override { cpu_->release(data); }
  void copy_in(void* to, const void* from, std::int64_t bytes) override {
    cpu_->copy_in(to, from, bytes);
  }
  void copy_out(void* to, const void* from, std::int64_t bytes) override {
    cpu_->copy_out(to, from, bytes);
    auto* const last = static_cast<std::uint8_t*>(to) + bytes - 1;
    *last = static_cast<std::uint8_t>(*last ^ flipped_);
  }
  void fill(void* data, std::uint8_t byte, std::int64_t bytes) override {
    cpu_->fill(data, byte, bytes);
  }
  void launch(int place, const void* functor, std::int64_t count) override {
    cpu_->launch(place, functor, count);
  }
  void multiply(const MatrixProduct& product) override { cpu_->multiply(product); }
  void synchronize() override {}
  std::int64_t footprint_bytes() const override { return 0; }

 private:
  std::uint8_t flipped_ = 0;
  std::unique_ptr<Device> cpu_ = make_cpu_device();
};

// A sum and a product, through arrays that are parts of blocks.
void compute(Device& device) {
  Memory memory(device);
  const Array whole = memory.make(DataType::kFloat32, {4, 3});
  launch(device, 12, FillUniform{elements(whole), 7});
  const Array part = part_of_dim(whole, 0, 1, 3);
  const Array out = memory.make(DataType::kFloat32, {3, 3});
  apply(memory, out, part, part, Sum{});
  multiply(memory, part, false, part, true, out);
}

TEST_CASE("a twin finds two devices equal that compute alike") {
  const std::unique_ptr<Device> twin = make_twin_device(std::make_unique<FaultyDevice>(0));
  CHECK_NOTHROW(compute(*twin));
}

TEST_CASE("a twin finds one wrong bit") {
  const std::unique_ptr<Device> twin = make_twin_device(std::make_unique<FaultyDevice>(0x40));
  CHECK_THROWS_AS(compute(*twin), KernelsDiffer);
}

}  // namespace
}  // namespace cairn
