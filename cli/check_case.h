#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "models/measured_file.h"

// What the simulated step has where a measurement was taken:
//
//   peak_bytes             its peak, and the workspaces of cuBLAS, which PyTorch takes from the
//                          same allocator
//   resident_bytes         what is there before a later step, and those workspaces
//   transient_bytes        the peak less what is there before the step
//   device_bytes           peak_bytes and the context's bytes, which the case states
//   allocation_bytes       of all single allocations the one nearest to the published number
//   saved_bytes_per_layer  what forward leaves of all that a middle layer makes
//   optimizer_state_bytes  the optimizer's states and master weights
//   loaded_bytes           the parameters, and the context's bytes where the case states them
//
// cuBLAS takes a workspace for each handle, and each thread has one: the one that runs forward, and
// autograd's (ATen/cuda/CUDABlas.cpp, CublasHandlePool.cpp).

namespace cairn {

struct CheckedCase {
  MeasuredCase measured = {};
  std::optional<std::int64_t> computed_bytes = {};  // empty for what is not modelled
  std::string detail = {};                          // "allocates 'logits'"
};

// Of computed over published, less 1: 0.02 is 2 % too much.
double error_of(const CheckedCase& checked);

// Throws InputError, with the case's id and place, where its run cannot be made.
CheckedCase check_case(MeasuredCase measured);

}  // namespace cairn
