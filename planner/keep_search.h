#pragma once

#include <cstdint>
#include <vector>

#include "planner/span_model.h"

// The search below keep_frontier: which ops of a span to keep, which to run again.

namespace cairn {

enum class KeepDecision : std::uint8_t { kNone, kKept, kRun };

struct KeepCandidate {
  std::vector<KeepDecision> of_op = {};  // kNone: nothing needs it
  std::vector<bool> is_kept = {};        // by tensor of the span
  // By tensor: a run of the recompute reads it.
  std::vector<bool> is_read_again = {};
  std::int32_t trigger = -1;  // op before whose Backward the recompute stands; -1: there is none
  std::int64_t cost = 0;
  std::int64_t run_peak_bytes = 0;  // largest step of the recompute, without gradients
};

// Where the peak of a recompute is above no Backward it makes no difference. By op that may be the
// trigger, or where none is yet (place 0, then op + 1): what the Backwards of any trigger from it
// on need above the gradients that are live at the trigger.
using RunFloors = std::vector<std::int64_t>;

struct KeepCandidates {
  std::vector<KeepCandidate> all = {};
  bool is_complete = true;
};

// All decisions that another does not beat in held bytes, cost and peak whatever the peak of the
// Backwards is. At most `most_labels` at once are followed.
KeepCandidates keep_candidates(const SpanModel& model, const RunFloors& floors,
                               std::size_t most_labels);

// Runs again whatever may run and is needed.
KeepCandidate keep_nothing(const SpanModel& model);

}  // namespace cairn
