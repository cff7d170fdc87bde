#include "executor/cuda/cublas.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <string>
#include <vector>

#include "graph/error.h"

namespace cairn {
namespace {

// Enumerators of cuBLAS and of library_types.h.
constexpr int kAsItIs = 0;             // CUBLAS_OP_N
constexpr int kTransposed = 1;         // CUBLAS_OP_T
constexpr int kFp32 = 0;               // CUDA_R_32F
constexpr int kFp64 = 1;               // CUDA_R_64F
constexpr int kBf16 = 14;              // CUDA_R_16BF
constexpr int kComputeInFp32 = 68;     // CUBLAS_COMPUTE_32F
constexpr int kComputeInFp64 = 70;     // CUBLAS_COMPUTE_64F
constexpr int kDefaultAlgorithm = -1;  // CUBLAS_GEMM_DEFAULT
// CUBLAS_DEFAULT_MATH | CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION
constexpr int kMathMode = 0 | 16;
constexpr int kNoAtomics = 0;  // CUBLAS_ATOMICS_NOT_ALLOWED

void check(int status, const char* call) {
  if (status != 0) {
    throw DeviceError(fmt::format("{} of cuBLAS failed with status {}", call, status));
  }
}

template <class Function>
void load(void* library, const std::string& path, const char* name, Function*& function) {
  void* const symbol = dlsym(library, name);
  if (symbol == nullptr) {
    throw DeviceError(fmt::format("{} is no cuBLAS of CUDA 11 or newer: it has no {}", path, name));
  }
  function = reinterpret_cast<Function*>(symbol);
}

CublasFunctions functions_of(void* library, const std::string& path) {
  CublasFunctions functions;
  load(library, path, "cublasCreate_v2", functions.create);
  load(library, path, "cublasDestroy_v2", functions.destroy);
  load(library, path, "cublasSetStream_v2", functions.set_stream);
  load(library, path, "cublasSetWorkspace_v2", functions.set_workspace);
  load(library, path, "cublasSetMathMode", functions.set_math_mode);
  load(library, path, "cublasSetAtomicsMode", functions.set_atomics_mode);
  load(library, path, "cublasGemmStridedBatchedEx", functions.gemm_strided_batched);
  return functions;
}

std::vector<std::string> library_names(int toolkit_major) {
  std::vector<std::string> names = {fmt::format("libcublas.so.{}", toolkit_major)};
  for (int major = 13; major >= 11; --major) {
    if (major != toolkit_major) names.push_back(fmt::format("libcublas.so.{}", major));
  }
  return names;
}

int type_of(DataType type) {
  switch (type) {
    case DataType::kFloat64:
      return kFp64;
    case DataType::kFloat32:
      return kFp32;
    case DataType::kBFloat16:
      return kBf16;
    default:
      CAIRN_CHECK(false, "a product of another type");
  }
}

int narrow(std::int64_t value) {
  if (value > std::numeric_limits<int>::max()) {
    throw DeviceError(fmt::format("cuBLAS takes no matrix of {} rows or columns", value));
  }
  return static_cast<int>(value);
}

}  // namespace

CublasFunctions load_cublas(int toolkit_major) {
  if (const char* const path = std::getenv("CAIRN_CUBLAS"); path != nullptr && *path != '\0') {
    void* const library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (library != nullptr) return functions_of(library, path);
    throw DeviceError(fmt::format("CAIRN_CUBLAS cannot be loaded: {}", dlerror()));
  }
  const std::vector<std::string> names = library_names(toolkit_major);
  for (const std::string& name : names) {
    void* const library = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library != nullptr) return functions_of(library, name);
  }
  throw DeviceError(fmt::format(
      "cuBLAS was not found (looked for {}): install it, or set CAIRN_CUBLAS to its path",
      join_names(names)));
}

std::int64_t cublas_workspace_bytes(int major) { return std::int64_t{major >= 9 ? 32 : 4} << 20; }

Cublas::Cublas(const CublasFunctions& functions, void* stream, void* workspace,
               std::int64_t workspace_bytes)
    : functions_(functions) {
  check(functions_.create(&handle_), "cublasCreate");
  try {
    check(functions_.set_stream(handle_, stream), "cublasSetStream");
    // After the stream, which sets the workspace back to cuBLAS's own.
    check(functions_.set_workspace(handle_, workspace, static_cast<std::size_t>(workspace_bytes)),
          "cublasSetWorkspace");
    check(functions_.set_math_mode(handle_, kMathMode), "cublasSetMathMode");
    check(functions_.set_atomics_mode(handle_, kNoAtomics), "cublasSetAtomicsMode");
  } catch (const DeviceError&) {
    functions_.destroy(handle_);
    throw;
  }
}

Cublas::~Cublas() { functions_.destroy(handle_); }

// A row-major matrix is the transpose of the column-major one in the same memory: what is asked of
// cuBLAS is c' = b' a'.
void Cublas::multiply(const MatrixProduct& p) const {
  if (p.rows == 0 || p.columns == 0 || p.count == 0) return;
  const int type = type_of(p.type);
  const bool is_fp64 = type == kFp64;
  const float factors[] = {1.0F, p.adds ? 1.0F : 0.0F};
  const double wide_factors[] = {1.0, p.adds ? 1.0 : 0.0};
  const auto factor = [&](std::size_t i) {
    return is_fp64 ? static_cast<const void*>(&wide_factors[i]) : &factors[i];
  };
  const auto leading = [](std::int64_t stride) {
    return narrow(std::max<std::int64_t>(stride, 1));
  };
  check(functions_.gemm_strided_batched(
            handle_, p.b_is_transposed ? kTransposed : kAsItIs,
            p.a_is_transposed ? kTransposed : kAsItIs, narrow(p.columns), narrow(p.rows),
            narrow(p.inner), factor(0), p.b, type, leading(p.b_row_stride), p.b_batch_stride, p.a,
            type, leading(p.a_row_stride), p.a_batch_stride, factor(1), p.c, type,
            leading(p.c_row_stride), p.c_batch_stride, narrow(p.count),
            is_fp64 ? kComputeInFp64 : kComputeInFp32, kDefaultAlgorithm),
        "cublasGemmStridedBatchedEx");
}

}  // namespace cairn
