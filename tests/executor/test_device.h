#pragma once

#include <memory>
#include <string>

#include "executor/device.h"

// The device that the tests of kernels and of the executor run on: the CPU; or that which
// CAIRN_TEST_DEVICE names; or, as "twin:NAME", the CPU with every kernel run on that one as well
// and held against it.

namespace cairn {

std::unique_ptr<Device> make_test_device();

// A CPU device that does all its work on `other` too, from the same bytes: tensors are in the
// host's memory, with a copy on the other that is made anew before each kernel. Throws
// KernelsDiffer where the other's elements are not the CPU's, by more than rounding.
std::unique_ptr<Device> make_twin_device(std::unique_ptr<Device> other);

class KernelsDiffer : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// What twins have compared so far, by functor or product; "" where CAIRN_TEST_DEVICE names none.
std::string twin_report();

}  // namespace cairn
