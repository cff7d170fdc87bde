#pragma once

#include <cstdint>
#include <optional>
#include <tuple>
#include <vector>

#include "planner/keep_search.h"
#include "planner/span_model.h"

// What may be decided about each op of a span, from the last to the first, and what that leaves
// open for the ops before it.

namespace cairn {

// How what is kept on a storage differs, during the recompute, from what is held.
enum class Rest : std::uint8_t {
  kNone,
  kDone,   // held, but all its Backwards are before the trigger so far
  kExtra,  // for ops behind the span alone, but there until the recompute is over
};

// What decisions about the ops from some op on leave open for those before it.
struct State {
  std::vector<std::uint8_t> is_needed = {};  // by tensor: a run reads it
  std::vector<std::uint8_t> is_kept = {};    // by storage: something kept is on it
  std::vector<std::uint8_t> is_held = {};    // by storage: and not for ops behind the span alone
  std::vector<Rest> rest = {};               // by storage
  std::int32_t trigger = -1;

  friend bool operator<(const State& a, const State& b) {
    return std::tie(a.trigger, a.is_needed, a.is_kept, a.is_held, a.rest) <
           std::tie(b.trigger, b.is_needed, b.is_kept, b.is_held, b.rest);
  }
};

struct Change {
  KeepDecision decision = KeepDecision::kNone;
  State state = {};
  std::int64_t held_bytes = 0;
  std::int64_t cost = 0;
  // A run's step of the recompute: its bytes above what is held, and what may be live beside them.
  // That is decided with the ops before: a tensor that names hold is live if its op runs. Sorted
  // codes, see Rules::storage_of.
  std::int64_t run_bytes = 0;
  std::vector<std::int32_t> unsure = {};
  // What becomes of what was unsure: live, or not; or unsure for its storage's sake.
  std::vector<std::int32_t> live = {};
  std::vector<std::int32_t> gone = {};
  std::vector<std::int32_t> done = {};
};

class Rules {
 public:
  // `may_make_again`: storages that are held, too.
  explicit Rules(const SpanModel& model, bool may_make_again = false);

  State first_state() const;
  // All that may be decided about the op, or that one decision where it may be.
  std::vector<Change> changes(std::int32_t op, const State& state,
                              std::optional<KeepDecision> only = {}) const;
  // What comes of one decision for each op, without the recompute's peak.
  KeepCandidate follow(std::vector<KeepDecision> of_op) const;
  // Runs what may run.
  KeepCandidate follow_runs() const;

  // Codes of what is unsure: a tensor, or a storage whose Backwards may all be before the trigger.
  std::int32_t storage_of(std::int32_t code) const;
  std::int32_t code_of_storage(std::int32_t storage) const;
  std::int64_t storage_bytes(std::int32_t storage) const {
    return model_.storages[static_cast<std::size_t>(storage)].bytes;
  }

 private:
  const SpanTensor& tensor(std::int32_t t) const {
    return model_.tensors[static_cast<std::size_t>(t)];
  }
  bool needs(const State& state, std::int32_t t) const;
  std::vector<std::int32_t> kept_of(std::int32_t op, const State& state) const;
  bool may_keep(std::int32_t op, const State& state, bool must_run) const;
  bool owns_kept(std::int32_t op, const State& state) const;
  Change keep(std::int32_t op, const State& state) const;
  void keep_on_storage(std::int32_t t, const State& before, Change& change) const;
  Change run(std::int32_t op, const State& state) const;
  void raise_trigger(std::int32_t saver, State& state) const;
  void add_live(std::int32_t op, std::size_t s, Change& change) const;
  bool is_surely_live(std::int32_t op, std::int32_t t, const State& state) const;
  bool is_perhaps_live(std::int32_t op, std::int32_t t) const;
  void settle(std::int32_t op, const State& before, Change& change) const;
  void close(std::int32_t op, State& state) const;
  void note(std::int32_t op, const State& state, const Change& change, KeepCandidate& found) const;

  const SpanModel& model_;
  bool may_make_again_ = false;
  bool is_run_in_order_ = false;
};

}  // namespace cairn
