#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "graph/device_spec.h"
#include "graph/graph.h"
#include "planner/evaluation.h"

// What planners minimise: the cost of the forward runs that a plan adds.

namespace cairn {

enum class CostUnit {
  kNanoseconds,  // each op's time is measured or stated, or the device has rates to derive one
  kFlops,        // else, where some op has FLOPs
  kRecomputes,   // else: each run of an op costs 1
};

struct OpCosts {
  CostUnit unit = CostUnit::kRecomputes;
  std::vector<std::int64_t> forward = {};  // by op: of one more run of its forward
  std::int64_t step = 0;                   // of forward and backward of one micro-batch
};

// `device` may be null. Throws InputError when the sum passes 2^63 - 1.
OpCosts op_costs(const Graph& graph, const DeviceSpec* device);

// What the plan costs more than keeping everything, over all micro-batches of a training step.
std::int64_t extra_cost(const Evaluation& evaluation, CostUnit unit);

// "ns", "FLOPs", "recomputes".
std::string_view cost_unit_name(CostUnit unit);

}  // namespace cairn
