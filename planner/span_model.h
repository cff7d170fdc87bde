#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "graph/graph.h"
#include "graph/ids.h"
#include "planner/keep_frontier.h"
#include "planner/op_costs.h"
#include "planner/span_profile.h"

// A span in small numbers, as the search for keep lists needs it. Ops are numbered from 0 in their
// order; so are the tensors that the span makes or is handed, and their storages. What lives for
// the whole step (parameters, inputs) is not there, nor what ops before the span hold for it.

namespace cairn {

inline constexpr std::int32_t kNotSaved = std::numeric_limits<std::int32_t>::max();

struct SpanTensor {
  TensorId id = kNoTensor;
  std::int32_t producer = -1;  // -1: handed to the span
  std::int32_t storage = -1;   // -1: of what lives for the whole step
  std::int32_t first_saver =
      kNotSaved;  // the first and last op of the span whose Backward reads it
  std::int32_t last_saver = -1;
  std::int32_t last_reader = -1;  // in forward; behind the span counts as well
  std::int32_t held_until = -1;   // by names
  bool is_read_outside = false;   // by a Backward of an op outside the span
  bool is_overwritten = false;
  bool must_keep = false;
  bool must_drop = false;

  bool is_saved() const { return last_saver >= 0; }
};

struct SpanStorage {
  std::int64_t bytes = 0;
  std::int32_t owner = -1;  // op; -1: handed to the span
  std::vector<std::int32_t> tensors = {};
  std::int32_t last_forward_use = -1;  // of a plan without keep lists; may be behind the span
  bool is_always_held = false;
};

struct SpanOp {
  OpId id = kNoOp;
  std::int64_t cost = 0;
  std::vector<std::int32_t> inputs = {};  // no repeats
  std::vector<std::int32_t> made = {};
  std::int64_t run_bytes = 0;  // what a recompute of it makes and works with, views not counted
  // More than without in a forward that something keeps an auxiliary of (rule 5).
  std::int64_t unswept_bytes = 0;
  std::vector<std::int32_t> auxiliaries = {};  // of `made`, where there are such bytes
  bool may_rerun = true;
};

struct SpanModel {
  Span span = {};
  Extent extent = Extent::kNeeded;
  std::vector<SpanOp> ops = {};
  std::vector<SpanTensor> tensors = {};
  std::vector<SpanStorage> storages = {};
  // `prefix`, `whole`: where the recompute ends, and the op before whose Backward it stands.
  std::int32_t stop = 0;
  std::int32_t trigger = -1;
};

SpanModel span_model(const Graph& graph, const Span& span, Extent extent, const OpCosts& costs,
                     const KeepConstraints& constraints);

}  // namespace cairn
