// How products are put to cuBLAS: a stand-in with cuBLAS's arguments, column-major on the host,
// must make what the CPU device makes.

#include "executor/cuda/cublas.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include "executor/functors/elements.h"
#include "tests/seed.h"

namespace cairn {
namespace {

// What the stand-in was told, in order.
std::string calls;

int fake_create(void** handle) {
  *handle = &calls;
  calls = "create";
  return 0;
}
int fake_destroy(void* /*handle*/) {
  calls += " destroy";
  return 0;
}
int fake_set_stream(void* /*handle*/, void* stream) {
  calls += fmt::format(" stream={}", stream != nullptr);
  return 0;
}
int fake_set_workspace(void* /*handle*/, void* /*workspace*/, std::size_t bytes) {
  calls += fmt::format(" workspace={}", bytes);
  return 0;
}
int fake_set_math_mode(void* /*handle*/, int mode) {
  calls += fmt::format(" math={}", mode);
  return 0;
}
int fake_set_atomics_mode(void* /*handle*/, int mode) {
  calls += fmt::format(" atomics={}", mode);
  return mode == 0 ? 0 : 7;
}

double number_at(const void* data, int type, std::int64_t at) {
  if (type == 1) return static_cast<const double*>(data)[at];
  if (type == 0) return static_cast<double>(static_cast<const float*>(data)[at]);
  return static_cast<double>(float_of_bf16(static_cast<const std::uint16_t*>(data)[at]));
}

void set_number(void* data, int type, std::int64_t at, double value) {
  if (type == 1) {
    static_cast<double*>(data)[at] = value;
  } else if (type == 0) {
    static_cast<float*>(data)[at] = static_cast<float>(value);
  } else {
    static_cast<std::uint16_t*>(data)[at] = bf16_of_float(static_cast<float>(value));
  }
}

// Column-major, as the documentation of cublasGemmStridedBatchedEx has it: a is m x k, or k x m
// where it is transposed. Refuses what cuBLAS refuses.
int fake_gemm(void* /*handle*/, int transposes_a, int transposes_b, int m, int n, int k,
              const void* alpha, const void* a, int type_a, int lda, long long stride_a,
              const void* b, int type_b, int ldb, long long stride_b, const void* beta, void* c,
              int type_c, int ldc, long long stride_c, int count, int compute_type, int algorithm) {
  const bool is_known = (type_a == 0 && compute_type == 68) ||
                        (type_a == 1 && compute_type == 70) || (type_a == 14 && compute_type == 68);
  if (!is_known || type_a != type_b || type_a != type_c || algorithm != -1) return 15;
  if (m < 0 || n < 0 || k < 0 || count < 0 || lda < std::max(1, transposes_a != 0 ? k : m) ||
      ldb < std::max(1, transposes_b != 0 ? n : k) || ldc < std::max(1, m)) {
    return 7;
  }
  const int factor_type = compute_type == 70 ? 1 : 0;
  for (std::int64_t at = 0; at < std::int64_t{count} * m * n; ++at) {
    const std::int64_t batch = at / m / n;
    const std::int64_t column = at / m % n;
    const std::int64_t row = at % m;
    double sum = 0.0;
    for (std::int64_t i = 0; i < k; ++i) {
      sum +=
          number_at(a, type_a,
                    batch * stride_a + (transposes_a != 0 ? row * lda + i : i * lda + row)) *
          number_at(b, type_b,
                    batch * stride_b + (transposes_b != 0 ? i * ldb + column : column * ldb + i));
    }
    const std::int64_t to = batch * stride_c + column * ldc + row;
    const double factor = number_at(beta, factor_type, 0);
    const double old = factor == 0.0 ? 0.0 : factor * number_at(c, type_c, to);
    set_number(c, type_c, to, number_at(alpha, factor_type, 0) * sum + old);
  }
  return 0;
}

CublasFunctions fake_functions() {
  return {.create = fake_create,
          .destroy = fake_destroy,
          .set_stream = fake_set_stream,
          .set_workspace = fake_set_workspace,
          .set_math_mode = fake_set_math_mode,
          .set_atomics_mode = fake_set_atomics_mode,
          .gemm_strided_batched = fake_gemm};
}

using Random = std::mt19937_64;

std::int64_t between(Random& random, std::int64_t least, std::int64_t most) {
  return std::uniform_int_distribution<std::int64_t>(least, most)(random);
}

// Bytes of numbers that every type holds exactly, as are their sums.
std::vector<std::uint8_t> random_numbers(Random& random, DataType type, std::int64_t count) {
  std::vector<std::uint8_t> bytes(static_cast<std::size_t>(count * bytes_per_element(type)));
  const int code = type == DataType::kFloat64 ? 1 : type == DataType::kFloat32 ? 0 : 14;
  for (std::int64_t i = 0; i < count; ++i) {
    set_number(bytes.data(), code, i, static_cast<double>(between(random, -4, 4)));
  }
  return bytes;
}

// The elements of `count` matrices whose rows and batches are apart by what is chosen here.
std::int64_t spread(Random& random, std::int64_t rows, std::int64_t columns, std::int64_t count,
                    bool may_be_one, std::int64_t& row_stride, std::int64_t& batch_stride) {
  row_stride = columns + between(random, 0, 3);
  batch_stride = rows * row_stride + between(random, 0, 5);
  if (may_be_one && between(random, 0, 3) == 0) batch_stride = 0;
  return count * batch_stride + rows * row_stride;
}

TEST_CASE("products put to cuBLAS are those of the CPU, whatever strides, transposes and batches") {
  const std::unique_ptr<Device> cpu = make_cpu_device();
  const Cublas cublas(fake_functions(), &calls, nullptr, 1024);
  Random random(test_seed());
  INFO("--seed=", test_seed());
  for (int i = 0; i < 600; ++i) {
    const DataType types[] = {DataType::kFloat32, DataType::kFloat64, DataType::kBFloat16};
    MatrixProduct p{.type = types[i % 3],
                    .rows = between(random, i % 50 == 0 ? 0 : 1, 9),
                    .columns = between(random, 1, 9),
                    .inner = between(random, 1, 9),
                    .a_is_transposed = between(random, 0, 1) == 1,
                    .b_is_transposed = between(random, 0, 1) == 1,
                    .adds = between(random, 0, 1) == 1,
                    .count = between(random, 0, 4)};
    const std::int64_t a_count =
        spread(random, p.a_is_transposed ? p.inner : p.rows, p.a_is_transposed ? p.rows : p.inner,
               p.count, true, p.a_row_stride, p.a_batch_stride);
    const std::int64_t b_count = spread(random, p.b_is_transposed ? p.columns : p.inner,
                                        p.b_is_transposed ? p.inner : p.columns, p.count, true,
                                        p.b_row_stride, p.b_batch_stride);
    const std::int64_t c_count =
        spread(random, p.rows, p.columns, p.count, false, p.c_row_stride, p.c_batch_stride);
    const std::vector<std::uint8_t> a = random_numbers(random, p.type, a_count);
    const std::vector<std::uint8_t> b = random_numbers(random, p.type, b_count);
    std::vector<std::uint8_t> expected = random_numbers(random, p.type, c_count);
    std::vector<std::uint8_t> found = expected;
    p.a = a.data();
    p.b = b.data();
    p.c = expected.data();
    cpu->multiply(p);
    p.c = found.data();
    cublas.multiply(p);
    CAPTURE(i);
    CHECK(found == expected);
  }
}

TEST_CASE("cuBLAS is set up to give the same bits in every run, and closed") {
  {
    const Cublas cublas(fake_functions(), &calls, nullptr, 1024);
    CHECK(calls == "create stream=true workspace=1024 math=16 atomics=0");
  }
  CHECK(calls == "create stream=true workspace=1024 math=16 atomics=0 destroy");
}

TEST_CASE("a failure of cuBLAS is one of the device, and leaves no handle open") {
  CublasFunctions functions = fake_functions();
  functions.set_math_mode = [](void* /*handle*/, int /*mode*/) { return 7; };
  CHECK_THROWS_WITH_AS(Cublas(functions, nullptr, nullptr, 0),
                       "cublasSetMathMode of cuBLAS failed with status 7", DeviceError);
  CHECK(calls == "create stream=false workspace=0 destroy");

  functions = fake_functions();
  functions.gemm_strided_batched = nullptr;
  const Cublas cublas(functions, nullptr, nullptr, 0);
  CHECK_THROWS_WITH_AS(cublas.multiply({.rows = std::int64_t{1} << 31, .columns = 1, .inner = 1}),
                       "cuBLAS takes no matrix of 2147483648 rows or columns", DeviceError);
  cublas.multiply({.rows = 0, .columns = 1, .inner = 1});  // nothing to do
}

// Loads with CAIRN_CUBLAS as given; the message, or "".
std::string loading(const char* path) {
  setenv("CAIRN_CUBLAS", path, 1);
  std::string message;
  try {
    load_cublas(13);
  } catch (const DeviceError& error) {
    message = error.what();
  }
  unsetenv("CAIRN_CUBLAS");
  return message;
}

TEST_CASE("a missing cuBLAS is named") {
  CHECK(loading("no/such/file.so") ==
        "CAIRN_CUBLAS cannot be loaded: no/such/file.so: cannot open shared object file: No such "
        "file or directory");
  CHECK(loading("libm.so.6") ==
        "libm.so.6 is no cuBLAS of CUDA 11 or newer: it has no cublasCreate_v2");
  const std::string message = loading("");  // where there is none
  if (message.empty()) return;
  CHECK(message ==
        "cuBLAS was not found (looked for libcublas.so.13, libcublas.so.12, libcublas.so.11): "
        "install it, or set CAIRN_CUBLAS to its path");
}

}  // namespace
}  // namespace cairn
