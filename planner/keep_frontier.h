#pragma once

#include <cstddef>
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
// Exact means: no keep list has as little held bytes, recompute cost and backward peak as one of
// the frontier and less of one of them, and none is missing that no other has as little of all
// three. It is claimed of keep lists that
//   - keep an op's tensors together, those that something reads again: a part of them spares no run
//     of it (docs/accounting.md, rule 24), though it may put the recompute off;
//   - never make a storage again that they hold: who keeps a view keeps what it is a view of;
//   - keep nothing that an op overwrites.
// A view on a kept storage costs nothing; ops that replay random numbers are run again like others;
// what an op makes that may not run again is always held, though no list names it (rule 26). With
// `whole`, whose recompute runs all in any case, the empty list is the only one.
// What is not claimed: anything of a plan with another region inside, or of several spans at once;
// nor that of two lists which are equal in those three the one with the lower forward peak is
// there. Forward peaks rise with what is held, and stay below backward's unless nearly all is.
//
// The search goes from the last op to the first and decides at each op that something needs whether
// it is kept or run; sets of decisions that leave the same open are compared, so its work grows
// with the number of undominated sets and of tensors open at once, not with all subsets. The
// simulator runs once, with nothing kept; the peaks of all lists follow from that run to the byte.
// With constraints that keep, it runs for each list of the frontier.

namespace cairn {

struct KeepSet {
  std::vector<TensorId> keep = {};  // in order of id
  // From forward to the recompute, by storage: what the span makes, and what it is handed, as far
  // as it holds that; its input with a gradient also where ops before it do. Without what later ops
  // hold of its outputs.
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
  // False where there were more sets than `most_labels` at once, which leaves some of them out; and
  // where what may not run again is a view, which is left to one list.
  bool is_exact = true;
  std::int64_t simulation_count = 0;
};

// Sets of decisions that a search of up to 60 ops follows at once before it leaves some out; fewer
// where there are more ops.
inline constexpr std::size_t kMostKeepLabels = 20000;

// `graph` may be reduced (planner/reduced_graph.h); `span` is a run of its blocks. Throws
// InputError where no keep list meets the constraints.
KeepFrontier keep_frontier(const Graph& graph, const Span& span, const Setting& setting,
                           const OpCosts& costs, const KeepConstraints& constraints = {},
                           std::size_t most_labels = kMostKeepLabels);

}  // namespace cairn
