#pragma once

#include <cstdint>
#include <vector>

#include "graph/graph.h"
#include "graph/ids.h"
#include "planner/evaluation.h"
#include "planner/op_costs.h"
#include "planner/span_profile.h"

// What a region over some blocks should keep: every keep list that is worth its bytes.
//
//   held    |■■■■■■■■■■                     cost falls as held bytes rise; the scores of eager
//           |        ■■■■■■                 attention are the cheapest bytes to drop, the
//           |              ■■■■■■■■■■       products the dearest
//           +------------------------ cost
//
// Exact means: no keep list has as little held bytes, recompute cost and peak (the larger of the
// two) as one of the frontier and less of one of them, nor does one lie between them. It is claimed
// of keep lists that
//   - keep an op's tensors together, those that something reads again: a part of them spares no run
//     of it (docs/accounting.md, rule 24);
//   - never make a storage again that they hold: who keeps a view keeps what it is a view of;
//   - keep nothing that an op overwrites.
// A view on a kept storage costs nothing; ops that replay random numbers are run again like others;
// what an op makes that may not run again is always held, though no list names it (rule 26).
// What is not claimed: anything of a plan with another region inside, or of several spans at once.
//
// The search goes from the last op to the first and decides at each op that something needs whether
// it is kept or run; sets of decisions that leave the same open are compared, so its work grows
// with the number of undominated sets and of tensors open at once, not with all subsets. The peaks
// are those of the simulator: taken from one run of it where nothing is kept, where they follow to
// the byte, else from a run of their own.

namespace cairn {

struct KeepSet {
  std::vector<TensorId> keep = {};  // in order of id
  // From forward to the recompute: the span's inputs with a gradient as far as they are held, and
  // what it makes; by storage. Without what later ops hold of its outputs.
  std::int64_t held_bytes = 0;
  std::int64_t recompute_cost = 0;       // in the unit of the OpCosts, of one micro-batch
  std::int64_t backward_peak_bytes = 0;  // as of span_profile
  std::int64_t forward_peak_bytes = 0;
};

struct KeepConstraints {
  std::vector<TensorId> keep = {};       // in every list; those of other ops than the span's are
  std::vector<TensorId> recompute = {};  // in none          not looked at
};

struct KeepFrontier {
  std::vector<KeepSet> sets = {};  // by rising held bytes; at least one
  // False where there were too many sets to look at, which leaves those with the least cost for
  // their bytes, or where forward peaks above backward.
  bool is_exact = true;
  std::int64_t simulation_count = 0;
};

// `graph` may be reduced (planner/reduced_graph.h); `span` is a run of its blocks. Throws
// InputError where no keep list meets the constraints.
KeepFrontier keep_frontier(const Graph& graph, const Span& span, const Setting& setting,
                           const OpCosts& costs, const KeepConstraints& constraints = {});

}  // namespace cairn
