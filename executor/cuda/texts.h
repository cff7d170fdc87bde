#pragma once

#include <string>

// What is wrong with a machine's GPU, in one line.

namespace cairn {

// As CUDA numbers its versions: 13000 is 13.0, 0 that there is none.
struct CudaVersions {
  int driver = 0;   // the newest that the driver supports
  int runtime = 0;  // what this build was made with
};

// cudaGetDeviceCount gave an error, with CUDA's own text for it.
std::string no_gpu_text(const CudaVersions& versions, const std::string& error_text);
// Another number than the driver shows GPUs.
std::string no_such_gpu_text(int number, int gpu_count);
// The kernels are compiled for newer GPUs.
std::string old_gpu_text(int number, const std::string& gpu, int major, int minor);

}  // namespace cairn
