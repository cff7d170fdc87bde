#include "sim/roofline.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "graph/checked.h"
#include "graph/error.h"

namespace cairn {
namespace {

constexpr double kNsPerSecond = 1e9;

// Rounded up; the largest std::int64_t where it passes that.
std::int64_t ns_at_rate(std::int64_t amount, double per_second) {
  constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();
  const double ns = std::ceil(static_cast<double>(amount) * kNsPerSecond / per_second);
  return ns < static_cast<double>(kMax) ? static_cast<std::int64_t>(ns) : kMax;
}

// All outputs lie on other storages, and nothing is computed or moved: no kernel runs.
bool is_free(const Graph& graph, const Op& op, const Cost& cost) {
  if (cost.flops != 0 || cost.executed_flops != 0 || cost.moved_bytes != 0) return false;
  return !op.in_place && std::all_of(op.outputs.begin(), op.outputs.end(),
                                     [&](TensorId output) { return is_view(graph, output); });
}

// The type an op computes in: its output's, except for a loss, which is wider than its input.
DataType compute_type(const Graph& graph, const Op& op) {
  const bool makes_loss =
      std::find(op.outputs.begin(), op.outputs.end(), graph.loss) != op.outputs.end();
  if (makes_loss && !op.inputs.empty()) return graph.tensor(op.inputs[0]).data_type;
  return op.outputs.empty() ? DataType::kFloat32 : graph.tensor(op.outputs[0]).data_type;
}

double matmul_rate(const Graph& graph, const Op& op, const DeviceSpec& device) {
  const DataType type = compute_type(graph, op);
  const bool is_16bit = type == DataType::kBFloat16 || type == DataType::kFloat16;
  return is_16bit ? device.matmul_16bit_flops : device.matmul_fp32_flops;
}

// Empty where neither the op nor a device says.
std::optional<std::int64_t> cost_time_ns(const Graph& graph, const Op& op, const Cost& cost,
                                         const DeviceSpec* device) {
  if (const std::optional<std::int64_t> known_ns = known_time_ns(cost)) return known_ns;
  if (is_free(graph, op, cost)) return 0;
  if (device == nullptr || !device->has_rates) return std::nullopt;
  return op_time_ns(graph, op, cost, *device);
}

}  // namespace

std::int64_t op_time_ns(const Graph& graph, const Op& op, const Cost& cost,
                        const DeviceSpec& device) {
  if (const std::optional<std::int64_t> known_ns = known_time_ns(cost)) return *known_ns;
  if (is_free(graph, op, cost)) return 0;
  CAIRN_CHECK(device.has_rates, device.id);
  std::int64_t ns = checked_multiply(cost.kernel_count, device.launch_ns,
                                     "op '" + op.name + "': the time of its launches");
  ns = std::max(ns, ns_at_rate(cost.moved_bytes, device.bandwidth_bytes));
  if (cost.is_matmul) {
    const std::int64_t flops = cost.executed_flops > 0 ? cost.executed_flops : cost.flops;
    ns = std::max(ns, ns_at_rate(flops, matmul_rate(graph, op, device)));
  }
  return ns;
}

std::optional<ScheduleTime> schedule_time(const Graph& graph, const Schedule& schedule,
                                          const DeviceSpec* device, std::int64_t rest_ns) {
  constexpr std::string_view kWhat = "the time of the schedule";
  ScheduleTime time{.total_ns = rest_ns};
  for (const Step& step : schedule.steps) {
    if (step.op == kNoOp) continue;
    const Op& op = graph.op(step.op);
    const Cost& cost = step.kind == StepKind::kBackward ? op.backward : op.forward;
    const std::optional<std::int64_t> once_ns = cost_time_ns(graph, op, cost, device);
    if (!once_ns) return std::nullopt;
    const std::int64_t ns = checked_multiply(*once_ns, times_run(schedule, step), kWhat);
    time.total_ns = checked_add(time.total_ns, ns, kWhat);
    if (step.kind == StepKind::kRecompute) time.recompute_ns += ns;
  }
  return time;
}

}  // namespace cairn
