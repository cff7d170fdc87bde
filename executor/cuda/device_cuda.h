#pragma once

#include <memory>

#include "executor/device.h"

// A GPU by CUDA: kernels are the functors that the CPU runs, compiled by nvcc; matrix products are
// cuBLAS's. One stream, so that work is done in its order. Where nvcc was not found when this was
// configured, device_no_cuda.cc stands in for device_cuda.cc.

namespace cairn {

// The GPU of that number among those that the driver shows. Throws DeviceError, in one line, where
// there is none, the driver is too old, the GPU too old, cuBLAS missing, or CUDA not built in.
std::unique_ptr<Device> make_cuda_device(int number);

}  // namespace cairn
