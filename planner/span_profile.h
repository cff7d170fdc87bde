#pragma once

#include <cstdint>
#include <vector>

#include "graph/graph.h"
#include "graph/ids.h"
#include "planner/evaluation.h"

// What the simulator says of a run of ops, a span, that is one region in a graph that is kept
// otherwise.
//
//   zero |#####| held by ops before the span       forward of the span is counted above it,
//                (not the span's own inputs)       backward above it and the gradients that
//                                                  parameters have already

namespace cairn {

struct Span {
  std::int32_t begin = 0;  // positions in Graph::ops, half-open
  std::int32_t end = 0;
};

// Bytes above zero. By op of the span, where there are several.
struct SpanProfile {
  std::vector<std::int64_t> forward_bytes = {};   // during its Compute
  std::vector<std::int64_t> backward_bytes = {};  // during its Backward, 0 without one
  // Behind its frees: sums of gradients, optimizer steps of an optimizer in backward.
  std::vector<std::int64_t> behind_bytes = {};
  std::vector<std::int64_t> before_backward_bytes = {};  // live before its Backward
  std::vector<OpId> recomputed = {};                     // in order
  OpId trigger = kNoOp;  // before whose Backward the recompute stands
  std::int64_t recompute_peak_bytes = 0;
  std::int64_t forward_peak_bytes = 0;
  std::int64_t backward_peak_bytes = 0;  // of recompute, Backwards and what is behind them
};

// `span` must be a run of blocks of the graph (chain_blocks). Throws InputError where the keep list
// does not fit (see `lower`).
SpanProfile span_profile(const Graph& graph, const Span& span, const std::vector<TensorId>& keep,
                         const Setting& setting);

}  // namespace cairn
