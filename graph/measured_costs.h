#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "graph/graph.h"

// How long the ops of one graph took on one device, as an executor measured them over some training
// steps: medians, and how far apart the quartiles lie. It is no model of a device: what was not run
// has no time.

namespace cairn {

struct MeasuredTime {
  std::int64_t median_ns = 0;
  std::int64_t spread_ns = 0;  // from the first quartile to the third

  friend bool operator==(const MeasuredTime&, const MeasuredTime&) = default;
};

struct MeasuredOp {
  std::string name = {};
  MeasuredTime forward = {};
  std::optional<MeasuredTime> backward = {};

  friend bool operator==(const MeasuredOp&, const MeasuredOp&) = default;
};

struct MeasuredCosts {
  std::string device = {};
  std::int64_t step_count = 0;  // training steps that were measured
  MeasuredTime step = {};       // of a whole training step
  MeasuredTime optimizer = {};  // all optimizer steps of one
  MeasuredTime overhead = {};   // of one, what lies between its ops and the optimizer's
  std::vector<MeasuredOp> ops = {};

  friend bool operator==(const MeasuredCosts&, const MeasuredCosts&) = default;
};

// Of a training step, besides its ops.
std::int64_t rest_ns(const MeasuredCosts& costs);

// Cost::measured_ns of every op and Backward. Throws InputError where some have no time, and names
// them.
void set_measured_times(Graph& graph, const MeasuredCosts& costs);

}  // namespace cairn
