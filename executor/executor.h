#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "executor/device.h"
#include "executor/parameter_step.h"
#include "graph/graph.h"
#include "graph/schedule.h"

// Runs a schedule on a device, step by step, and measures it. It decides nothing: what is kept,
// rebuilt and freed is the schedule's, sizes and gradients are the kernels'.

namespace cairn {

// What an op made, or the gradient of an input or parameter when it is whole, on the host. An op is
// seen each time that it is computed.
struct TensorSeen {
  TensorId tensor = kNoTensor;
  bool is_gradient = false;
  DataType type = DataType::kFloat32;
  std::vector<std::uint8_t> bytes = {};  // dense, in row-major order
};
using TensorObserver = std::function<void(const TensorSeen&)>;

struct ExecutorOptions {
  std::uint64_t seed = 1;
  OptimizerSettings optimizer = {};
  std::optional<std::int64_t> limit_bytes = {};
  bool poisons_freed = false;
  TensorObserver tensor_observer = {};  // slow; in the measured times
};

// A step that is not a Free: the most bytes that were live in it, and those behind its frees.
struct MeasuredStep {
  std::size_t step = 0;  // position in Schedule::steps
  std::int64_t during_bytes = 0;
  std::int64_t after_bytes = 0;
  std::int64_t time_ns = 0;
};

// One training step. Of a micro-batch that stands for several, the last is measured.
struct ExecutedStep {
  double loss = 0.0;  // of the last micro-batch
  std::int64_t peak_bytes = 0;
  std::int64_t time_ns = 0;
  std::vector<MeasuredStep> steps = {};
};

// What the kernels of an op asked for, the last time that they ran.
struct OpWorkspaces {
  std::int64_t forward_bytes = 0;
  std::int64_t backward_bytes = 0;
};

// A part of a parameter's gradient, on the host, before the optimizer steps it: parts come in
// order, and none is large. What an observer does is in no measured time.
struct GradientSeen {
  TensorId parameter = kNoTensor;
  std::int64_t first_byte = 0;
  std::vector<std::uint8_t> bytes = {};
};
using GradientObserver = std::function<void(const GradientSeen&)>;

// Throws InputError where the graph has an op or a type that the executor has no kernel for: every
// one is named.
void check_executable(const Graph& graph);

class Executor {
 public:
  // Loads parameters and inputs; random ones, the same for the same graph and seed. The graph, the
  // schedule and the device must outlive the executor. Throws DeviceError.
  Executor(const Graph& graph, const Schedule& schedule, Device& device,
           const ExecutorOptions& options);
  ~Executor();
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  std::int64_t resident_bytes() const;
  // Bytes of an input or parameter, from the host or to it.
  void set_tensor(TensorId id, const void* bytes);
  std::vector<std::uint8_t> tensor(TensorId id) const;

  const std::vector<OpWorkspaces>& workspaces() const;  // by op

  // Throws DeviceError, and ScheduleFault where a step reads what is not there: the message begins
  // with the step, and names what holds most of the memory. It cannot be run any further then.
  ExecutedStep run_step(const GradientObserver& observer = {});

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace cairn
