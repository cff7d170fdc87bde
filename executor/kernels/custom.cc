#include <chrono>
#include <optional>

#include "executor/kernels/kernels.h"

// Ops of which only bytes and costs are known: a kernel that mixes all it reads into all it makes,
// so that a tensor that was not rebuilt, or not as it was, shows in every number after it. Where
// the graph states a time, it goes on until that has passed; the numbers do not depend on it.

namespace cairn {
namespace {

// out = mixed(out, x), of numbers in [0, 1).
void mix(Memory& memory, const Array& out, const Array& x, std::uint64_t salt) {
  if (element_count(x) == 0) return;
  launch(memory.device(), element_count(out),
         Mix{elements(out), elements(x), element_count(x), salt});
}

void fill(Memory& memory, const Array& out, std::uint64_t salt) {
  launch(memory.device(), element_count(out), FillUniform{elements(out), salt});
}

void custom_forward(ForwardRun& run) {
  const Graph& graph = run.graph;
  const auto make = [&](TensorId id, std::uint64_t salt) {
    const Tensor& tensor = graph.tensor(id);
    Array out;
    for (std::size_t i = 0; i < run.inputs.size() && !out.is_there(); ++i) {
      if (graph.tensor(run.op.inputs[i]).storage != tensor.storage) continue;
      out = run.inputs[i];
      out.shape = {tensor.bytes / 4};
      out.tail_bytes = tensor.bytes % 4;
      if (!run.op.in_place) return out;
    }
    const bool is_view = out.is_there();
    if (!is_view) {
      out = run.memory.make_bytes(tensor.bytes);
      fill(run.memory, out, run.seed + salt);
    }
    for (std::size_t i = is_view ? 1 : 0; i < run.inputs.size(); ++i) {
      mix(run.memory, out, run.inputs[i], salt + i);
    }
    return out;
  };
  const bool sweeps = !run.keeps_auxiliaries && run.op.sweep_workspace_bytes;
  if (!sweeps) {
    for (const TensorId id : run.op.auxiliaries) {
      run.auxiliaries.push_back(make(id, 1000 + run.auxiliaries.size()));
    }
  }
  for (const TensorId id : run.op.outputs) run.outputs.push_back(make(id, run.outputs.size()));
  run.workspaces = {
      run.memory.make_bytes(sweeps ? *run.op.sweep_workspace_bytes : run.op.workspace_bytes)};
}

// The saved tensor over which the gradient is written, where there is one.
Array place_of_gradient(const BackwardRun& run, std::size_t input) {
  const TensorId place = run.op.gradient_places[input];
  if (place == kNoTensor) return {};
  for (std::size_t i = 0; i < run.op.auxiliaries.size(); ++i) {
    if (run.op.auxiliaries[i] == place) return run.auxiliaries[i];
  }
  return run.inputs[input];
}

// Of everything saved and of the gradients of the outputs.
void custom_backward(BackwardRun& run) {
  for (std::size_t i = 0; i < run.inputs.size(); ++i) {
    if (!run.wants[i]) continue;
    Array out = place_of_gradient(run, i);
    if (!out.is_there() && run.op.gradient_aliases[i] && run.output_gradients[0].is_there()) {
      run.gradients[i] = {.array = run.output_gradients[0], .is_view = run.op.gradient_views[i]};
      continue;
    }
    if (!out.is_there()) {
      out = run.memory.make_bytes(run.graph.tensor(run.op.inputs[i]).bytes);
      fill(run.memory, out, i);
    }
    for (const std::vector<Array>* arrays :
         {&run.inputs, &run.outputs, &run.auxiliaries, &run.output_gradients}) {
      for (const Array& array : *arrays) {
        if (array.is_there()) mix(run.memory, out, array, i);
      }
    }
    run.gradients[i] = {.array = std::move(out), .is_view = run.op.gradient_views[i]};
  }
  run.workspaces = {run.memory.make_bytes(run.op.backward_workspace_bytes)};
}

// The work, and then nothing until the stated time has passed since its begin.
template <class Work>
void last_stated_time(Device& device, const Cost& cost, const Work& work) {
  const std::optional<std::int64_t> time_ns = known_time_ns(cost);
  if (!time_ns) return work();
  device.synchronize();  // the device, too, has then begun the step
  const auto begin = std::chrono::steady_clock::now();
  work();
  device.wait_since(begin, *time_ns);
}

void timed_forward(ForwardRun& run) {
  last_stated_time(run.memory.device(), run.op.forward, [&] { custom_forward(run); });
}

void timed_backward(BackwardRun& run) {
  last_stated_time(run.memory.device(), run.op.backward, [&] { custom_backward(run); });
}

}  // namespace

std::vector<Kernel> custom_kernels() { return {{"custom", timed_forward, timed_backward}}; }

}  // namespace cairn
