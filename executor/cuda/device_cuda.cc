#include "executor/cuda/device_cuda.h"

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <array>
#include <cstdlib>
#include <limits>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "executor/cuda/cublas.h"
#include "executor/cuda/launchers.h"
#include "executor/cuda/texts.h"
#include "executor/functors/list.h"
#include "graph/error.h"

namespace cairn {
namespace {

constexpr int kOldestMajor = 8;        // the kernels are compiled for compute capability 8.0
constexpr std::int64_t kMarks = 1024;  // events, used in turn

void check(int error, const char* call) {
  if (error == cudaSuccess) return;
  const auto code = static_cast<cudaError_t>(error);
  throw DeviceError(fmt::format("{} of CUDA failed: {} ({})", call, cudaGetErrorString(code),
                                cudaGetErrorName(code)));
}

int attribute(cudaDeviceAttr name, int gpu) {
  int value = 0;
  check(cudaDeviceGetAttribute(&value, name, gpu), "cudaDeviceGetAttribute");
  return value;
}

// Throws where the GPU of that number cannot be used.
void check_gpu(int number) {
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (error != cudaSuccess) {
    CudaVersions versions{.runtime = CUDART_VERSION};
    cudaDriverGetVersion(&versions.driver);
    throw DeviceError(no_gpu_text(versions, cudaGetErrorString(error)));
  }
  if (number >= count) throw DeviceError(no_such_gpu_text(number, count));
  const int major = attribute(cudaDevAttrComputeCapabilityMajor, number);
  cudaDeviceProp properties;
  check(cudaGetDeviceProperties(&properties, number), "cudaGetDeviceProperties");
  if (major < kOldestMajor) {
    throw DeviceError(old_gpu_text(number, properties.name, major,
                                   attribute(cudaDevAttrComputeCapabilityMinor, number)));
  }
  if (attribute(cudaDevAttrMemoryPoolsSupported, number) == 0) {
    throw DeviceError(
        fmt::format("cuda:{}, {}, has no memory pools (cudaMallocAsync)", number, properties.name));
  }
}

std::int64_t free_bytes() {
  std::size_t free = 0;
  std::size_t total = 0;
  check(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
  return static_cast<std::int64_t>(free);
}

// The raw things of CUDA, each released where it was made, in the order of their making.
struct Stream {
  cudaStream_t stream = nullptr;
  Stream() { check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreate"); }
  ~Stream() { cudaStreamDestroy(stream); }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
};

struct Workspace {
  void* data = nullptr;
  std::int64_t bytes = 0;
  explicit Workspace(std::int64_t of_bytes) : bytes(of_bytes) {
    check(cudaMalloc(&data, static_cast<std::size_t>(bytes)), "cudaMalloc");
  }
  ~Workspace() { cudaFree(data); }
  Workspace(const Workspace&) = delete;
  Workspace& operator=(const Workspace&) = delete;
};

// It keeps what it has taken from the GPU until it is trimmed, and fits new blocks into its holes
// by mapping memory anew, so that what it takes is the most that was live at once, but for pages of
// 2 MiB that are not full.
struct Pool {
  cudaMemPool_t pool = nullptr;
  explicit Pool(int gpu) {
    cudaMemPoolProps properties = {};
    properties.allocType = cudaMemAllocationTypePinned;
    properties.location = {};
    properties.location.type = cudaMemLocationTypeDevice;
    properties.location.id = gpu;
    check(cudaMemPoolCreate(&pool, &properties), "cudaMemPoolCreate");
    std::uint64_t kept_bytes = std::numeric_limits<std::uint64_t>::max();
    check(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &kept_bytes),
          "cudaMemPoolSetAttribute");
  }
  ~Pool() { cudaMemPoolDestroy(pool); }
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  std::int64_t bytes(cudaMemPoolAttr name) const {
    std::uint64_t value = 0;
    check(cudaMemPoolGetAttribute(pool, name, &value), "cudaMemPoolGetAttribute");
    return static_cast<std::int64_t>(value);
  }
};

class CudaDevice : public Device {
 public:
  explicit CudaDevice(int number)
      : number_(number),
        pool_(number),
        workspace_(cublas_workspace_bytes(attribute(cudaDevAttrComputeCapabilityMajor, number))),
        cublas_(load_cublas(CUDART_VERSION / 1000), stream_.stream, workspace_.data,
                workspace_.bytes) {
    cudaDeviceProp properties;
    check(cudaGetDeviceProperties(&properties, number), "cudaGetDeviceProperties");
    name_ = fmt::format("cuda:{}, {}", number, properties.name);
    synchronize();
    free_at_begin_bytes_ = free_bytes();
  }

  ~CudaDevice() override {
    for (const cudaEvent_t event : events_) {
      if (event != nullptr) cudaEventDestroy(event);
    }
  }

  std::string name() const override { return name_; }

  void* allocate(std::int64_t bytes) override {
    void* data = nullptr;
    const cudaError_t error =
        cudaMallocFromPoolAsync(&data, static_cast<std::size_t>(bytes), pool_.pool, stream_.stream);
    if (error == cudaErrorMemoryAllocation) {
      cudaGetLastError();  // which would else stay the last error
      throw DeviceError(
          fmt::format("cuda:{} has no {} bytes: {} are free", number_, bytes, available_bytes()));
    }
    check(error, "cudaMallocFromPoolAsync");
    ++block_count_;
    return data;
  }

  void release(void* data) noexcept override {
    cudaFreeAsync(data, stream_.stream);
    if (--block_count_ > 0) return;
    cudaStreamSynchronize(stream_.stream);
    cudaMemPoolTrimTo(pool_.pool, 0);
  }

  void copy_in(void* to, const void* from, std::int64_t bytes) override {
    check(cudaMemcpyAsync(to, from, static_cast<std::size_t>(bytes), cudaMemcpyHostToDevice,
                          stream_.stream),
          "cudaMemcpyAsync");
    synchronize();
  }

  void copy_out(void* to, const void* from, std::int64_t bytes) override {
    check(cudaMemcpyAsync(to, from, static_cast<std::size_t>(bytes), cudaMemcpyDeviceToHost,
                          stream_.stream),
          "cudaMemcpyAsync");
    synchronize();
  }

  void fill(void* data, std::uint8_t byte, std::int64_t bytes) override {
    check(cudaMemsetAsync(data, byte, static_cast<std::size_t>(bytes), stream_.stream),
          "cudaMemsetAsync");
  }

  void launch(int place, const void* functor, std::int64_t count) override {
    counted_as_context(is_launched_[static_cast<std::size_t>(place)], [&] {
      check(launcher_of(place)(functor, count, stream_.stream), "a kernel's launch");
    });
  }

  void multiply(const MatrixProduct& p) override {
    const Shapes shapes{p.type, p.rows, p.columns, p.inner, p.a_is_transposed, p.b_is_transposed,
                        p.count};
    bool is_known = !multiplied_.insert(shapes).second;
    counted_as_context(is_known, [&] { cublas_.multiply(p); });
  }

  void synchronize() override {
    check(cudaStreamSynchronize(stream_.stream), "cudaStreamSynchronize");
  }

  std::int64_t mark() override {
    cudaEvent_t& event = events_[static_cast<std::size_t>(mark_count_ % kMarks)];
    if (event == nullptr) check(cudaEventCreate(&event), "cudaEventCreate");
    check(cudaEventRecord(event, stream_.stream), "cudaEventRecord");
    return mark_count_++;
  }

  std::int64_t elapsed_ns(std::int64_t begin, std::int64_t end) override {
    CAIRN_CHECK(begin >= 0 && begin + kMarks >= mark_count_ && begin <= end && end < mark_count_,
                "a mark that is not there");
    const cudaEvent_t last = events_[static_cast<std::size_t>(end % kMarks)];
    check(cudaEventSynchronize(last), "cudaEventSynchronize");
    float milliseconds = 0.0F;
    check(cudaEventElapsedTime(&milliseconds, events_[static_cast<std::size_t>(begin % kMarks)],
                               last),
          "cudaEventElapsedTime");
    return static_cast<std::int64_t>(static_cast<double>(milliseconds) * 1e6);
  }

  std::int64_t footprint_bytes() const override {
    return free_at_begin_bytes_ - free_bytes() - context_growth_bytes_;
  }

  std::int64_t available_bytes() const override {
    return free_bytes() + pool_.bytes(cudaMemPoolAttrReservedMemCurrent) -
           pool_.bytes(cudaMemPoolAttrUsedMemCurrent);
  }

 private:
  using Shapes =
      std::tuple<DataType, std::int64_t, std::int64_t, std::int64_t, bool, bool, std::int64_t>;

  // A kernel's code is loaded, and the stack of all its threads reserved, when it is first
  // launched: that is the context's memory, not the tensors'.
  template <class Work>
  void counted_as_context(bool& is_loaded, const Work& work) {
    if (is_loaded) return work();
    synchronize();
    const std::int64_t before_bytes = free_bytes();
    work();
    synchronize();
    context_growth_bytes_ += before_bytes - free_bytes();
    is_loaded = true;
  }

  int number_ = 0;
  std::string name_ = {};
  Stream stream_ = {};
  Pool pool_;
  Workspace workspace_;
  Cublas cublas_;
  std::array<bool, AllFunctors::kCount> is_launched_ = {};
  std::set<Shapes> multiplied_ = {};
  std::array<cudaEvent_t, kMarks> events_ = {};
  std::int64_t mark_count_ = 0;
  std::int64_t block_count_ = 0;
  std::int64_t free_at_begin_bytes_ = 0;
  std::int64_t context_growth_bytes_ = 0;
};

}  // namespace

std::unique_ptr<Device> make_cuda_device(int number) {
  // Else CUDA before 12.2 loads every kernel of cuBLAS at once.
  setenv("CUDA_MODULE_LOADING", "LAZY", 0);
  check_gpu(number);
  check(cudaSetDevice(number), "cudaSetDevice");
  return std::make_unique<CudaDevice>(number);
}

}  // namespace cairn
