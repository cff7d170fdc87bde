#pragma once

#include <cstddef>
#include <cstdint>

#include "executor/device.h"

// Matrix products by cuBLAS, which is loaded when a program first needs it: no header of cuBLAS is
// needed to build, and what is built starts where there is none. The types below are cuBLAS's as C
// passes them (cublas_api.h of CUDA 11.8 to 13.0: the same in all).

namespace cairn {

struct CublasFunctions {
  int (*create)(void** handle) = nullptr;
  int (*destroy)(void* handle) = nullptr;
  int (*set_stream)(void* handle, void* stream) = nullptr;
  int (*set_workspace)(void* handle, void* workspace, std::size_t bytes) = nullptr;
  int (*set_math_mode)(void* handle, int mode) = nullptr;
  int (*set_atomics_mode)(void* handle, int mode) = nullptr;
  // `count` column-major products c = alpha a b + beta c: c is m x n, its columns ldc apart.
  int (*gemm_strided_batched)(void* handle, int transposes_a, int transposes_b, int m, int n, int k,
                              const void* alpha, const void* a, int type_a, int lda,
                              long long stride_a, const void* b, int type_b, int ldb,
                              long long stride_b, const void* beta, void* c, int type_c, int ldc,
                              long long stride_c, int count, int compute_type,
                              int algorithm) = nullptr;
};

// From the file that CAIRN_CUBLAS names, or else the first of libcublas.so.N that the loader finds:
// the toolkit's major version first, then the others from 13 to 11. Throws DeviceError, in one
// line, naming what was looked for.
CublasFunctions load_cublas(int toolkit_major);

// At least what the documentation of cublasSetWorkspace recommends for GPUs of that major compute
// capability.
std::int64_t cublas_workspace_bytes(int major);

// A handle of cuBLAS, set up so that every run has the same bits: one stream, a workspace of its
// own, no atomics. fp32 is computed in fp32 (no TF32), bf16 is summed in fp32.
class Cublas {
 public:
  Cublas(const CublasFunctions& functions, void* stream, void* workspace,
         std::int64_t workspace_bytes);
  ~Cublas();
  Cublas(const Cublas&) = delete;
  Cublas& operator=(const Cublas&) = delete;

  void multiply(const MatrixProduct& product) const;

 private:
  CublasFunctions functions_ = {};
  void* handle_ = nullptr;
};

}  // namespace cairn
