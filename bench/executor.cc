// The executor on the CPU: what it costs beyond its kernels, matrix products against the library
// called directly, and Chen et al. 2016's trade on a chain of 1,000 layers.

#include "executor/executor.h"

#include <cblas.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <vector>

#include "executor/workspaces.h"
#include "graph/graph_builder.h"
#include "graph/ops/op_kind.h"
#include "models/load_model.h"
#include "planner/planner.h"

namespace {

using cairn::Device;
using cairn::Graph;
using cairn::Schedule;
using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// The CPU, with the time that its kernels take.
class TimedDevice : public Device {
 public:
  std::string name() const override { return device_->name(); }
  void* allocate(std::int64_t bytes) override { return device_->allocate(bytes); }
  void release(void* data) noexcept override { device_->release(data); }
  void copy_in(void* to, const void* from, std::int64_t bytes) override {
    timed([&] { device_->copy_in(to, from, bytes); });
  }
  void copy_out(void* to, const void* from, std::int64_t bytes) override {
    timed([&] { device_->copy_out(to, from, bytes); });
  }
  void fill(void* data, std::uint8_t byte, std::int64_t bytes) override {
    timed([&] { device_->fill(data, byte, bytes); });
  }
  void launch(int place, const void* functor, std::int64_t count) override {
    timed([&] { device_->launch(place, functor, count); });
  }
  void multiply(const cairn::MatrixProduct& product) override {
    timed([&] { device_->multiply(product); });
  }
  void synchronize() override { device_->synchronize(); }
  std::int64_t footprint_bytes() const override { return device_->footprint_bytes(); }

  double kernel_seconds() const { return kernel_seconds_; }

 private:
  template <class Work>
  void timed(const Work& work) {
    const Clock::time_point begin = Clock::now();
    work();
    kernel_seconds_ += seconds_since(begin);
  }

  std::unique_ptr<Device> device_ = cairn::make_cpu_device();
  double kernel_seconds_ = 0.0;
};

void overhead() {
  cairn::ModelRequest request{.model = "gpt2", .tokens = 256, .vocab = 1024};
  request.set = {{"layers", "12"}, {"hidden", "256"}, {"heads", "4"}, {"attention_dropout", "0"}};
  request.precision = cairn::find_precision("fp32");
  const cairn::LoadedModel model = cairn::load_model(request);
  const Graph graph = cairn::with_executor_workspaces(model.graph);
  const Schedule schedule = cairn::lower_training_step(
      graph, model.recipe.step, cairn::lower(graph, cairn::keep_all_plan(graph)));
  TimedDevice device;
  cairn::Executor executor(graph, schedule, device, {});
  executor.run_step();
  std::vector<double> shares;
  std::vector<double> steps;
  for (int i = 0; i < 9; ++i) {
    const double kernels_before = device.kernel_seconds();
    const Clock::time_point begin = Clock::now();
    executor.run_step();
    const double all = seconds_since(begin);
    steps.push_back(all);
    shares.push_back((all - (device.kernel_seconds() - kernels_before)) / all * 100.0);
  }
  fmt::print(
      "gpt2, 12 layers, 256 wide, 1 x 256 tokens, fp32: step {:.1f} ms, {:.2f} % of it not "
      "in kernels\n",
      median(steps) * 1e3, median(shares));
}

void product(std::int64_t rows, std::int64_t columns, std::int64_t inner) {
  const std::unique_ptr<Device> device = cairn::make_cpu_device();
  const std::vector<float> a(static_cast<std::size_t>(rows * inner), 1.0F);
  const std::vector<float> b(static_cast<std::size_t>(columns * inner), 1.0F);
  std::vector<float> c(static_cast<std::size_t>(rows * columns));
  std::vector<double> ratios;
  std::vector<double> times;
  for (int i = 0; i < 21; ++i) {
    Clock::time_point begin = Clock::now();
    device->multiply({.a = a.data(),
                      .b = b.data(),
                      .c = c.data(),
                      .rows = rows,
                      .columns = columns,
                      .inner = inner,
                      .b_is_transposed = true,
                      .a_row_stride = inner,
                      .b_row_stride = inner,
                      .c_row_stride = columns});
    const double ours = seconds_since(begin);
    begin = Clock::now();
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, static_cast<int>(rows),
                static_cast<int>(columns), static_cast<int>(inner), 1.0F, a.data(),
                static_cast<int>(inner), b.data(), static_cast<int>(inner), 0.0F, c.data(),
                static_cast<int>(columns));
    times.push_back(ours);
    ratios.push_back(ours / seconds_since(begin));
  }
  fmt::print("product {:5} x {:5} x {:5}: {:7.2f} ms, {:.2f} of the library called directly\n",
             rows, columns, inner, median(times) * 1e3, median(ratios));
}

// Linear layers with a GELU each: two tensors are saved a layer. All have one weight, so that
// gradients of parameters are nothing beside the activations.
Graph chain(std::int64_t layers, std::int64_t rows, std::int64_t width) {
  cairn::GraphBuilder builder("chain", cairn::DataType::kFloat32);
  cairn::TensorId x =
      builder.add_input("x", cairn::DataType::kFloat32, {rows, width}, /*requires_grad=*/false);
  const cairn::TensorId weight =
      builder.add_parameter("weight", cairn::DataType::kFloat32, {width, width}, true);
  for (std::int64_t i = 0; i < layers; ++i) {
    const auto block = static_cast<std::int32_t>(i);
    x = builder.add_op({.name = fmt::format("linear{}", i),
                        .kind = cairn::find_op_kind("linear"),
                        .attributes = {.width = width},
                        .inputs = {x},
                        .shared_parameters = {{"weight", weight}},
                        .block = block})[0];
    x = builder.add_op({.name = fmt::format("gelu{}", i),
                        .kind = cairn::find_op_kind("gelu"),
                        .inputs = {x},
                        .block = block})[0];
  }
  return cairn::with_executor_workspaces(builder.build(x));
}

struct Measured {
  double seconds = 0.0;
  std::int64_t activation_bytes = 0;  // the peak, above what is resident
};

Measured run(const Graph& graph, const cairn::Plan& plan) {
  const Schedule schedule = cairn::lower_training_step(graph, {}, cairn::lower(graph, plan));
  const std::unique_ptr<Device> device = cairn::make_cpu_device();
  cairn::Executor executor(graph, schedule, *device,
                           {.optimizer = {.rule = cairn::SteppedBy::kSgd}});
  executor.run_step();
  const std::int64_t resident_bytes = executor.resident_bytes();
  std::vector<double> times;
  Measured measured;
  for (int i = 0; i < 3; ++i) {
    const Clock::time_point begin = Clock::now();
    measured.activation_bytes = executor.run_step().peak_bytes - resident_bytes;
    times.push_back(seconds_since(begin));
  }
  measured.seconds = median(times);
  return measured;
}

void chen() {
  const Graph graph = chain(1000, 128, 256);
  const Measured keep_all = run(graph, cairn::keep_all_plan(graph));
  const Measured sqrt = run(graph, cairn::plan_sqrt(graph, cairn::Extent::kNeeded));
  fmt::print(
      "1,000 linear layers with GELU: activations {:.1f} MiB, under sqrt {:.1f} MiB, {:.1f} "
      "times lower; step {:.1f} ms, {:.1f} ms, {:.1f} % slower\n",
      static_cast<double>(keep_all.activation_bytes) / 1048576.0,
      static_cast<double>(sqrt.activation_bytes) / 1048576.0,
      static_cast<double>(keep_all.activation_bytes) / static_cast<double>(sqrt.activation_bytes),
      keep_all.seconds * 1e3, sqrt.seconds * 1e3, (sqrt.seconds / keep_all.seconds - 1.0) * 100.0);
}

}  // namespace

int main() {
  overhead();
  product(256, 1024, 256);
  product(1024, 1024, 1024);
  product(2048, 4096, 1024);
  chen();
}
