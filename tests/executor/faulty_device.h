#pragma once

#include <cstring>
#include <map>
#include <memory>
#include <string>

#include "executor/device.h"

// The CPU, with faults that a test asks for, and a list of what is allocated on it.

namespace cairn {

class FaultyDevice : public Device {
 public:
  std::int64_t failing_launch = -1;     // throws at this launch, from 0
  std::int64_t corrupting_launch = -1;  // behind this one the newest block is all NaN
  std::int64_t launch_count = 0;
  std::map<void*, std::int64_t> blocks = {};  // their bytes

  std::string name() const override { return "faulty"; }
  void* allocate(std::int64_t bytes) override {
    void* const data = cpu_->allocate(bytes);
    blocks[data] = bytes;
    newest_ = data;
    return data;
  }
  void release(void* data) noexcept override {
    blocks.erase(data);
    if (data == newest_) newest_ = nullptr;
    cpu_->release(data);
  }
  void copy_in(void* to, const void* from, std::int64_t bytes) override {
    cpu_->copy_in(to, from, bytes);
  }
  void copy_out(void* to, const void* from, std::int64_t bytes) override {
    cpu_->copy_out(to, from, bytes);
  }
  void fill(void* data, std::uint8_t byte, std::int64_t bytes) override {
    cpu_->fill(data, byte, bytes);
  }
  void launch(int place, const void* functor, std::int64_t count) override {
    if (launch_count == failing_launch) throw DeviceError("a kernel failed");
    cpu_->launch(place, functor, count);
    if (launch_count++ == corrupting_launch && newest_ != nullptr) {
      cpu_->fill(newest_, 0xFF, blocks[newest_]);
    }
  }
  void multiply(const MatrixProduct& product) override { cpu_->multiply(product); }
  void synchronize() override {}
  std::int64_t footprint_bytes() const override { return cpu_->footprint_bytes(); }

 private:
  std::unique_ptr<Device> cpu_ = make_cpu_device();
  void* newest_ = nullptr;
};

}  // namespace cairn
