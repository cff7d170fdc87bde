#include "cli/check_case.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <utility>

#include "cli/check_layer.h"
#include "graph/error.h"
#include "models/gpu_catalogue.h"
#include "models/load_model.h"
#include "planner/evaluation.h"
#include "planner/planner.h"
#include "sim/replay.h"

namespace cairn {
namespace {

constexpr std::int64_t kThreadsWithHandles = 2;

struct SimulatedRun {
  LoadedModel model = {};
  Evaluation evaluation = {};
};

SimulatedRun simulate_run(const MeasuredRun& run) {
  const Strategy strategy = parse_strategy(run.checkpointing);
  ModelRequest request = run.request;
  request.is_checkpointed = is_checkpointed(strategy);
  SimulatedRun simulated{.model = run.model ? load_found_model(request, *run.model)
                                            : load_model(request)};
  const Graph& graph = simulated.model.graph;
  Plan plan = make_plan(graph, strategy, run.extent);
  simulated.evaluation =
      evaluate_plan(graph, std::move(plan), {.step = simulated.model.recipe.step});
  return simulated;
}

bool multiplies_matrices(const Graph& graph) {
  return std::any_of(graph.ops.begin(), graph.ops.end(),
                     [](const Op& op) { return op.forward.is_matmul; });
}

std::int64_t cublas_bytes(const MeasuredCase& measured, const Graph& graph) {
  if (!multiplies_matrices(graph)) return 0;
  if (measured.cublas_workspace_bytes) {
    return kThreadsWithHandles * *measured.cublas_workspace_bytes;
  }
  if (measured.gpu.empty()) return 0;
  const DeviceSpec device = find_gpu(measured.gpu, {});
  for (const MemoryReserve& reserve : device.reserves) {
    if (reserve.what == "cuBLAS workspace") return kThreadsWithHandles * reserve.bytes;
  }
  return 0;
}

struct NamedBytes {
  std::string name = {};
  std::int64_t bytes = 0;
};

void add_if_nearer(const std::string& name, std::int64_t bytes, std::int64_t wanted,
                   NamedBytes& nearest) {
  if (std::abs(bytes - wanted) < std::abs(nearest.bytes - wanted)) nearest = {name, bytes};
}

// Storages and their gradients, and what a step has beside them.
NamedBytes nearest_allocation(const SimulatedRun& run, std::int64_t wanted) {
  const Graph& graph = run.model.graph;
  NamedBytes nearest;
  for (const Storage& storage : graph.storages) {
    const Tensor& tensor = graph.tensor(storage.owner);
    if (tensor.producer == kNoOp) continue;
    add_if_nearer(tensor.name, storage.bytes, wanted, nearest);
    if (tensor.has_gradient) {
      add_if_nearer("gradient of " + tensor.name, tensor.bytes, wanted, nearest);
    }
  }
  for (const Op& op : graph.ops) {
    add_if_nearer("workspace of " + op.name, op.workspace_bytes, wanted, nearest);
    add_if_nearer("workspace of the backward of " + op.name, op.backward_workspace_bytes, wanted,
                  nearest);
  }
  return nearest;
}

NamedBytes computed_of(const MeasuredCase& measured, const MeasuredRun& run) {
  const SimulatedRun simulated = simulate_run(run);
  const Graph& graph = simulated.model.graph;
  const Trace& trace = simulated.evaluation.trace;
  const std::int64_t workspaces = cublas_bytes(measured, graph) + measured.library_workspace_bytes;
  switch (measured.metric) {
    case MeasuredMetric::kPeakBytes:
      return {.bytes = trace.peak_bytes + workspaces};
    case MeasuredMetric::kResidentBytes:
      return {.bytes = trace.resident_bytes + workspaces};
    case MeasuredMetric::kTransientBytes:
      return {.bytes = trace.peak_bytes - trace.resident_bytes};
    case MeasuredMetric::kDeviceBytes:
      return {.bytes = trace.peak_bytes + workspaces + measured.context_bytes};
    case MeasuredMetric::kAllocationBytes:
      return nearest_allocation(simulated, measured.value_bytes);
    case MeasuredMetric::kSavedBytesPerLayer:
      return {.bytes = kept_by_middle_layer(graph, simulated.evaluation.schedule)};
    case MeasuredMetric::kOptimizerStateBytes:
      return {.bytes = optimizer_state_bytes(graph) + master_weight_bytes(graph)};
    case MeasuredMetric::kLoadedBytes:
      return {.bytes = parameter_bytes(graph) + measured.context_bytes};
    case MeasuredMetric::kReservedBytes:
      break;
  }
  CAIRN_CHECK(false, "reserved bytes are not modelled");
}

}  // namespace

double error_of(const CheckedCase& checked) {
  return static_cast<double>(*checked.computed_bytes) /
             static_cast<double>(checked.measured.value_bytes) -
         1;
}

CheckedCase check_case(MeasuredCase measured) {
  CheckedCase checked{.measured = std::move(measured)};
  const MeasuredCase& known = checked.measured;
  if (!known.not_modelled.empty()) return checked;
  try {
    const NamedBytes computed = computed_of(known, *known.run);
    checked.computed_bytes = computed.bytes;
    if (!computed.name.empty()) checked.detail = computed.name;
    if (known.minus) *checked.computed_bytes -= computed_of(known, *known.minus).bytes;
  } catch (const InputError& error) {
    throw InputError(fmt::format("{}: case '{}': {}", known.place, known.id, error.what()));
  }
  return checked;
}

}  // namespace cairn
