#pragma once

#include <cstdint>
#include <string>
#include <vector>

// One GPU: what a process may really allocate on it, and how fast it computes.

namespace cairn {

// Bytes that are not there for tensors: the CUDA context, library workspaces.
struct MemoryReserve {
  std::string what = {};
  std::int64_t bytes = 0;
};

struct DeviceSpec {
  std::string id = {};            // "rtx4090", or the size that was asked for
  std::string name = {};          // "GeForce RTX 4090"
  std::int64_t total_bytes = 0;   // what PyTorch sees as the card's total
  std::string total_origin = {};  // where that number comes from
  std::string note = {};          // what the user should know about it, "" for nothing
  std::vector<MemoryReserve> reserves = {};
  bool has_rates = false;   // the rates below are known; a bare size has none
  bool lacks_bf16 = false;  // no tensor cores for it: matmul_16bit_flops is fp16's
  // Achievable rates per second, not data-sheet peaks (docs/accounting.md, "Time").
  double matmul_16bit_flops = 0;
  double matmul_fp32_flops = 0;
  double bandwidth_bytes = 0;
  std::int64_t launch_ns = 0;  // least time of one kernel
};

// What is left for tensors.
std::int64_t capacity_bytes(const DeviceSpec& device);

}  // namespace cairn
