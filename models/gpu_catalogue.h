#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "graph/device_spec.h"

// The GPUs Cairn knows: models/gpus/gpus.yaml, which says what its numbers are, and the files
// gpus/*.yaml of the user's folders.
//
//   |<------------- total: what PyTorch sees ------------->|<- driver ->|
//   |<------- capacity ------->| cuBLAS | CUDA context     |            |
//                               (reserves)                  nvidia-smi's total

namespace cairn {

struct GpuEntry {
  DeviceSpec device = {};
  bool has_capacity = false;  // false: the catalogue has no verified capacity for it
  std::string arch = {};
  std::string confidence = {};  // "low", "med", "high": how well its sources agree; "" unknown
  std::string note = {};
};

// In the order of the files; an entry of a folder replaces the built-in one of the same id.
std::vector<GpuEntry> list_gpus(const std::vector<std::filesystem::path>& folders);

// A catalogue id ("rtx4090"), an id or name in another spelling ("RTX 4090", "NVIDIA A100 80GB
// SXM"), or a card's total as nvidia-smi prints it ("24GiB", "16GB", "24564MiB"). Throws InputError
// for an unknown name (the nearest is offered), one that fits several cards, a size that is none,
// and a GPU without a verified capacity (it asks for the size instead).
DeviceSpec find_gpu(const std::string& name_or_size,
                    const std::vector<std::filesystem::path>& folders);

// Exact bytes of "24GiB", "512MiB", "16GB" (10^9), "1073741824"; of "1.5GiB", rounded down. From 1
// byte to 1024TiB; the case of letters does not matter. Throws InputError, beginning with `what`.
std::int64_t parse_bytes(const std::string& text, const std::string& what);

}  // namespace cairn
