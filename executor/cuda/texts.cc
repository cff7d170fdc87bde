#include "executor/cuda/texts.h"

#include <fmt/format.h>

namespace cairn {
namespace {

std::string version_text(int version) {
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

}  // namespace

std::string no_gpu_text(const CudaVersions& versions, const std::string& error_text) {
  if (versions.driver == 0) {
    return "this machine has no NVIDIA driver (libcuda.so.1 was not found): install one, or use "
           "--device cpu";
  }
  if (versions.driver / 1000 < versions.runtime / 1000) {
    return fmt::format(
        "the NVIDIA driver is too old: it supports CUDA {}, and this build was made with CUDA {}: "
        "update the driver, or build with an older CUDA toolkit",
        version_text(versions.driver), version_text(versions.runtime));
  }
  return fmt::format("the NVIDIA driver shows no GPU to use: {}", error_text);
}

std::string no_such_gpu_text(int number, int gpu_count) {
  return fmt::format("there is no GPU cuda:{}: the driver shows {}, the last is cuda:{}", number,
                     gpu_count, gpu_count - 1);
}

std::string old_gpu_text(int number, const std::string& gpu, int major, int minor) {
  return fmt::format(
      "cuda:{}, {}, has compute capability {}.{}: the kernels need 8.0 (Ampere) or newer", number,
      gpu, major, minor);
}

}  // namespace cairn
