#pragma once

#include <cstdint>
#include <vector>

#include "models/document.h"
#include "models/gpu_catalogue.h"

// One file of GPUs: the facts it lists become capacities and rates here. Part of the catalogue.

namespace cairn {

// What holds for all GPUs of a file; models/gpus/gpus.yaml says where the numbers come from.
struct GpuDefaults {
  std::int64_t driver_gap_bytes = 0;
  std::int64_t context_bytes = 0;
  std::int64_t workspace_bytes = 0;       // of cuBLAS
  std::int64_t workspace_sm90_bytes = 0;  // on compute 9.0, 10.x and 12.x
  std::int64_t workspace_rocm_bytes = 0;
  std::int64_t workspace_gfx94x_bytes = 0;  // on gfx94x and gfx95x
  double matmul_fraction = 0;
  double matmul_fraction_cdna = 0;
  double bandwidth_fraction = 0;
  std::int64_t launch_ns = 0;
};

struct GpuFile {
  GpuDefaults defaults = {};
  std::vector<GpuEntry> entries = {};
};

// `inherited` holds where the file states no defaults of its own. Throws InputError.
GpuFile read_gpus(const Document& document, const GpuDefaults& inherited);

// models/gpus/gpus.yaml, as it was built in.
GpuFile read_builtin_gpus();

}  // namespace cairn
