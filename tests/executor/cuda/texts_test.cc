#include "executor/cuda/texts.h"

#include <doctest/doctest.h>

namespace cairn {
namespace {

TEST_CASE("what is wrong with a machine's GPU") {
  CHECK(no_gpu_text({.driver = 0, .runtime = 13000}, "") ==
        "this machine has no NVIDIA driver (libcuda.so.1 was not found): install one, or use "
        "--device cpu");
  CHECK(no_gpu_text({.driver = 11040, .runtime = 13000}, "") ==
        "the NVIDIA driver is too old: it supports CUDA 11.4, and this build was made with CUDA "
        "13.0: update the driver, or build with an older CUDA toolkit");
  // An older minor version of the driver runs what a newer one of the toolkit built.
  CHECK(no_gpu_text({.driver = 12020, .runtime = 12080}, "no CUDA-capable device is detected") ==
        "the NVIDIA driver shows no GPU to use: no CUDA-capable device is detected");
  CHECK(no_such_gpu_text(2, 2) == "there is no GPU cuda:2: the driver shows 2, the last is cuda:1");
  CHECK(old_gpu_text(0, "Tesla T4", 7, 5) ==
        "cuda:0, Tesla T4, has compute capability 7.5: the kernels need 8.0 (Ampere) or newer");
}

}  // namespace
}  // namespace cairn
