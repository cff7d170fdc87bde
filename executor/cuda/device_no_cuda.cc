#include "executor/cuda/device_cuda.h"

namespace cairn {

std::unique_ptr<Device> make_cuda_device(int /*number*/) {
  throw DeviceError(
      "this build has no CUDA, as nvcc was not found when it was configured: install the CUDA "
      "toolkit and build again, or use --device cpu");
}

}  // namespace cairn
