#pragma once

#include <cstdint>
#include <optional>

#include "graph/device_spec.h"
#include "graph/graph.h"
#include "graph/schedule.h"

// Time of ops and schedules: a roofline, one op after the other.
//
//   an op takes    its measured time, else its stated one, else
//                  nothing where it only makes views, else the longest of
//                    its matmul FLOPs  / the rate of its element type (what the kernel executes)
//                    its moved bytes   / the bandwidth
//                    its kernels       * the launch time
//
// Ops that are no matmul are bound by bandwidth or launch. The optimizer step is in it only where
// it was measured: it is then part of `rest_ns`, a training step's time besides its ops.

namespace cairn {

struct ScheduleTime {
  std::int64_t total_ns = 0;
  std::int64_t recompute_ns = 0;  // of the Recompute steps alone
};

// Empty when some step's op has neither a known time nor a device with rates to derive one
// (`device` may be null).
std::optional<ScheduleTime> schedule_time(const Graph& graph, const Schedule& schedule,
                                          const DeviceSpec* device, std::int64_t rest_ns = 0);

// One run of `op` at `cost`, its forward or backward. The device must have rates, unless the time
// is known.
std::int64_t op_time_ns(const Graph& graph, const Op& op, const Cost& cost,
                        const DeviceSpec& device);

}  // namespace cairn
