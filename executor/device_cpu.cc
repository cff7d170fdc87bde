#include <cblas.h>
#include <malloc.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "executor/device.h"
#include "executor/functors/list.h"
#include "executor/kept_blocks.h"

// The plain reference: kernels are loops over indices, on all cores; matrix products are those of a
// BLAS.

namespace cairn {
namespace {

// A launch takes all cores where one of them would need so long: less is not worth waking them.
constexpr double kWorthThreadsNs = 100e3;
constexpr std::int64_t kFewestWidened = 65536;  // elements of bf16, likewise
constexpr std::int64_t kTimedShare = 32;        // of the indices, run first and timed

using Runner = void (*)(const void* functor, std::int64_t count);

std::int64_t now_ns() {
  return std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// On a copy, which nothing that the functor writes can change.
template <class Functor>
void run(const void* functor, std::int64_t count) {
  const Functor f = *static_cast<const Functor*>(functor);
  const std::int64_t begin_ns = now_ns();
  const std::int64_t timed = (count + kTimedShare - 1) / kTimedShare;
  for (std::int64_t i = 0; i < timed; ++i) f(i);
  const double rest = static_cast<double>(count - timed) / static_cast<double>(timed);
  const bool is_long = static_cast<double>(now_ns() - begin_ns) * rest > kWorthThreadsNs;
#pragma omp parallel for schedule(static) firstprivate(f) if (is_long)
  for (std::int64_t i = timed; i < count; ++i) f(i);
}

template <class... Functors>
constexpr std::array<Runner, sizeof...(Functors)> runners(FunctorList<Functors...>) {
  return {run<Functors>...};
}

constexpr auto kRunners = runners(AllFunctors{});

CBLAS_TRANSPOSE transposition(bool is_transposed) {
  return is_transposed ? CblasTrans : CblasNoTrans;
}

template <class Number>
using Gemm = void (*)(CBLAS_ORDER, CBLAS_TRANSPOSE, CBLAS_TRANSPOSE, blasint, blasint, blasint,
                      Number, const Number*, blasint, const Number*, blasint, Number, Number*,
                      blasint);

template <class Number>
void blas_product(const MatrixProduct& p, Gemm<Number> gemm) {
  gemm(CblasRowMajor, transposition(p.a_is_transposed), transposition(p.b_is_transposed),
       static_cast<blasint>(p.rows), static_cast<blasint>(p.columns), static_cast<blasint>(p.inner),
       Number(1), static_cast<const Number*>(p.a), static_cast<blasint>(p.a_row_stride),
       static_cast<const Number*>(p.b), static_cast<blasint>(p.b_row_stride),
       Number(p.adds ? 1 : 0), static_cast<Number*>(p.c), static_cast<blasint>(p.c_row_stride));
}

// Part of a bf16 matrix as fp32, [rows, columns], where the matrix is read transposed or not.
void widen(const std::uint16_t* from, bool is_transposed, std::int64_t row_stride,
           std::int64_t rows, std::int64_t columns, float* to) {
#pragma omp parallel for schedule(static) if (rows * columns >= kFewestWidened)
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t column = 0; column < columns; ++column) {
      to[row * columns + column] = float_of_bf16(
          from[is_transposed ? column * row_stride + row : row * row_stride + column]);
    }
  }
}

// No BLAS need know bf16: blocks are widened, multiplied and summed in fp32, and rounded once.
void bf16_product(const MatrixProduct& p) {
  constexpr std::int64_t kBlockElements = std::int64_t{1} << 20;
  const auto* const a = static_cast<const std::uint16_t*>(p.a);
  const auto* const b = static_cast<const std::uint16_t*>(p.b);
  auto* const c = static_cast<std::uint16_t*>(p.c);
  const std::int64_t side = std::clamp(kBlockElements / std::max<std::int64_t>(p.inner, 1),
                                       std::int64_t{16}, std::int64_t{1024});
  const std::int64_t block_rows = std::min(side, p.rows);
  const std::int64_t block_columns = std::min(side, p.columns);
  std::vector<float> wide_a(static_cast<std::size_t>(block_rows * p.inner));
  std::vector<float> wide_b(static_cast<std::size_t>(block_columns * p.inner));
  std::vector<float> sums(static_cast<std::size_t>(block_rows * block_columns));
  for (std::int64_t column = 0; column < p.columns; column += block_columns) {
    const std::int64_t columns = std::min(block_columns, p.columns - column);
    widen(b + (p.b_is_transposed ? column * p.b_row_stride : column), p.b_is_transposed,
          p.b_row_stride, p.inner, columns, wide_b.data());
    for (std::int64_t row = 0; row < p.rows; row += block_rows) {
      const std::int64_t rows = std::min(block_rows, p.rows - row);
      widen(a + (p.a_is_transposed ? row : row * p.a_row_stride), p.a_is_transposed, p.a_row_stride,
            rows, p.inner, wide_a.data());
      blas_product<float>({.a = wide_a.data(),
                           .b = wide_b.data(),
                           .c = sums.data(),
                           .rows = rows,
                           .columns = columns,
                           .inner = p.inner,
                           .a_row_stride = std::max<std::int64_t>(p.inner, 1),
                           .b_row_stride = columns,
                           .c_row_stride = columns},
                          cblas_sgemm);
      for (std::int64_t i = 0; i < rows; ++i) {
        std::uint16_t* const out = c + (row + i) * p.c_row_stride + column;
        const float* const sum = sums.data() + i * columns;
        for (std::int64_t j = 0; j < columns; ++j) {
          out[j] = bf16_of_float(p.adds ? float_of_bf16(out[j]) + sum[j] : sum[j]);
        }
      }
    }
  }
}

// The number behind a word in a file of /proc.
std::optional<std::int64_t> kilobytes_of(const char* path, std::string_view name) {
  std::ifstream file(path);
  for (std::string word; file >> word;) {
    std::int64_t kilobytes = 0;
    if (word == name && file >> kilobytes) return kilobytes;
  }
  return std::nullopt;
}

class CpuDevice : public Device {
 public:
  std::string name() const override { return "cpu"; }

  void* allocate(std::int64_t bytes) override {
    void* const data = blocks_.allocate(static_cast<std::size_t>(bytes));
    if (data == nullptr) throw DeviceError("the CPU has no " + std::to_string(bytes) + " bytes");
    return data;
  }

  void release(void* data) noexcept override { blocks_.release(data); }

  void copy_in(void* to, const void* from, std::int64_t bytes) override {
    std::memcpy(to, from, static_cast<std::size_t>(bytes));
  }

  void copy_out(void* to, const void* from, std::int64_t bytes) override {
    std::memcpy(to, from, static_cast<std::size_t>(bytes));
  }

  void fill(void* data, std::uint8_t byte, std::int64_t bytes) override {
    std::memset(data, byte, static_cast<std::size_t>(bytes));
  }

  void launch(int place, const void* functor, std::int64_t count) override {
    kRunners[static_cast<std::size_t>(place)](functor, count);
  }

  void multiply(const MatrixProduct& product) override {
    if (product.rows == 0 || product.columns == 0) return;
    if (product.count != 1) {
      for (std::int64_t i = 0; i < product.count; ++i) multiply(product_of_batch(product, i));
      return;
    }
    switch (product.type) {
      case DataType::kFloat32:
        return blas_product<float>(product, cblas_sgemm);
      case DataType::kFloat64:
        return blas_product<double>(product, cblas_dgemm);
      default:
        return bf16_product(product);
    }
  }

  void synchronize() override {}

  std::int64_t footprint_bytes() const override {
    std::int64_t pages = 0;
    std::int64_t resident_pages = 0;
    std::ifstream("/proc/self/statm") >> pages >> resident_pages;
    return resident_pages * sysconf(_SC_PAGESIZE);
  }

  // Pages that malloc keeps of what was freed are given back. Linux,
  // Documentation/filesystems/proc.rst: 5 resets the peak of the resident set.
  void begin_footprint_peak() override {
    blocks_.free_kept();
    malloc_trim(0);
    std::ofstream("/proc/self/clear_refs") << 5;
  }

  std::int64_t peak_footprint_bytes() const override {
    return kilobytes_of("/proc/self/status", "VmHWM:").value_or(0) * 1024;
  }

  // Where there is no such file, all there may be.
  std::int64_t available_bytes() const override {
    const std::optional<std::int64_t> kilobytes = kilobytes_of("/proc/meminfo", "MemAvailable:");
    return kilobytes ? *kilobytes * 1024 : Device::available_bytes();
  }

 private:
  KeptBlocks blocks_ = {};
};

}  // namespace

std::unique_ptr<Device> make_cpu_device() { return std::make_unique<CpuDevice>(); }

}  // namespace cairn
