#include "planner/keep_rules.h"

#include <algorithm>
#include <utility>

namespace cairn {
namespace {

bool is_set(const std::vector<std::uint8_t>& flags, std::int32_t i) {
  return flags[static_cast<std::size_t>(i)] != 0;
}

}  // namespace

Rules::Rules(const SpanModel& model, bool may_make_again)
    : model_(model), may_make_again_(may_make_again) {
  is_run_in_order_ = model.extent != Extent::kNeeded;
}

State Rules::first_state() const {
  return {.is_needed = std::vector<std::uint8_t>(model_.tensors.size(), 0),
          .is_kept = std::vector<std::uint8_t>(model_.storages.size(), 0),
          .is_held = std::vector<std::uint8_t>(model_.storages.size(), 0),
          .rest = std::vector<Rest>(model_.storages.size(), Rest::kNone),
          .trigger = model_.trigger};
}

std::vector<Change> Rules::changes(std::int32_t op, const State& state,
                                   std::optional<KeepDecision> only) const {
  const SpanOp& of = model_.ops[static_cast<std::size_t>(op)];
  const bool is_needed =
      std::any_of(of.made.begin(), of.made.end(), [&](std::int32_t t) { return needs(state, t); });
  const bool must_keep = std::any_of(of.made.begin(), of.made.end(),
                                     [&](std::int32_t t) { return tensor(t).must_keep; });
  const bool must_run = is_run_in_order_ ? op < model_.stop && of.may_rerun : is_needed;
  const auto is_asked = [only](KeepDecision decision) { return !only || *only == decision; };
  std::vector<Change> changes;
  if (!is_needed && !must_run && !must_keep) {
    if (is_asked(KeepDecision::kNone)) changes.push_back({.state = state});
  } else {
    if (is_asked(KeepDecision::kKept) && may_keep(op, state, must_run)) {
      changes.push_back(keep(op, state));
    }
    const bool may_run = must_run && of.may_rerun && !must_keep;
    if (is_asked(KeepDecision::kRun) && may_run && (may_make_again_ || !owns_kept(op, state))) {
      changes.push_back(run(op, state));
    }
  }
  for (Change& change : changes) {
    settle(op, state, change);
    close(op, change.state);
  }
  return changes;
}

KeepCandidate Rules::follow(std::vector<KeepDecision> of_op) const {
  KeepCandidate found{.of_op = std::move(of_op),
                      .is_kept = std::vector<bool>(model_.tensors.size(), false),
                      .is_read_again = std::vector<bool>(model_.tensors.size(), false)};
  State state = first_state();
  for (std::size_t i = model_.ops.size(); i-- > 0;) {
    const auto op = static_cast<std::int32_t>(i);
    for (Change& change : changes(op, state, found.of_op[i])) {
      found.cost += change.cost;
      note(op, state, change, found);
      state = std::move(change.state);
    }
  }
  found.trigger = state.trigger;
  return found;
}

// Runs what may run.
KeepCandidate Rules::follow_runs() const {
  std::vector<KeepDecision> of_op(model_.ops.size(), KeepDecision::kNone);
  State state = first_state();
  for (std::size_t i = model_.ops.size(); i-- > 0;) {
    std::vector<Change> possible = changes(static_cast<std::int32_t>(i), state);
    if (possible.empty()) continue;
    of_op[i] = possible.back().decision;
    state = std::move(possible.back().state);
  }
  return follow(std::move(of_op));
}

// In `found`: what is kept, and what a run reads.
void Rules::note(std::int32_t op, const State& state, const Change& change,
                 KeepCandidate& found) const {
  if (change.decision == KeepDecision::kKept) {
    for (const std::int32_t t : kept_of(op, state)) {
      found.is_kept[static_cast<std::size_t>(t)] = true;
    }
  }
  if (change.decision == KeepDecision::kRun) {
    for (const std::int32_t t : model_.ops[static_cast<std::size_t>(op)].inputs) {
      found.is_read_again[static_cast<std::size_t>(t)] = true;
    }
  }
}

// A tensor, or a storage whose Backwards may all be before the trigger.
std::int32_t Rules::storage_of(std::int32_t code) const {
  const auto tensor_count = static_cast<std::int32_t>(model_.tensors.size());
  return code >= tensor_count ? code - tensor_count : tensor(code).storage;
}

std::int32_t Rules::code_of_storage(std::int32_t s) const {
  return static_cast<std::int32_t>(model_.tensors.size()) + s;
}

bool Rules::needs(const State& state, std::int32_t t) const {
  return tensor(t).is_saved() || is_set(state.is_needed, t);
}

// Its tensors that a keep list names: with `prefix` all, for else the op runs all the same.
std::vector<std::int32_t> Rules::kept_of(std::int32_t op, const State& state) const {
  const SpanOp& of = model_.ops[static_cast<std::size_t>(op)];
  const bool takes_all = is_run_in_order_ && op < model_.stop && of.may_rerun;
  std::vector<std::int32_t> kept;
  for (const std::int32_t t : of.made) {
    if (takes_all || needs(state, t) || tensor(t).must_keep) kept.push_back(t);
  }
  return kept;
}

bool Rules::may_keep(std::int32_t op, const State& state, bool must_run) const {
  const bool is_forced = !model_.ops[static_cast<std::size_t>(op)].may_rerun;
  for (const std::int32_t t : kept_of(op, state)) {
    const bool is_read = needs(state, t) || tensor(t).is_read_outside;
    if (!is_read || tensor(t).must_drop) return false;
    if (tensor(t).is_overwritten && !is_forced) return false;
  }
  return must_run || is_forced || !kept_of(op, state).empty();
}

// A run of the op would make a storage again that is held.
bool Rules::owns_kept(std::int32_t op, const State& state) const {
  for (const std::int32_t t : model_.ops[static_cast<std::size_t>(op)].made) {
    const std::int32_t s = tensor(t).storage;
    if (s >= 0 && model_.storages[static_cast<std::size_t>(s)].owner == op &&
        is_set(state.is_kept, s)) {
      return true;
    }
  }
  return false;
}

Change Rules::keep(std::int32_t op, const State& state) const {
  Change change{.decision = KeepDecision::kKept, .state = state};
  for (const std::int32_t t : kept_of(op, state)) {
    if (tensor(t).storage >= 0) keep_on_storage(t, state, change);
  }
  return change;
}

void Rules::keep_on_storage(std::int32_t t, const State& before, Change& change) const {
  const auto s = static_cast<std::size_t>(tensor(t).storage);
  State& state = change.state;
  const bool is_live =
      is_run_in_order_ || is_set(before.is_needed, t) || tensor(t).first_saver <= state.trigger;
  state.is_kept[s] = 1;
  if (!needs(before, t)) {
    if (is_run_in_order_ && state.is_held[s] == 0) state.rest[s] = Rest::kExtra;
    return;
  }
  if (state.is_held[s] == 0) {
    state.is_held[s] = 1;
    state.rest[s] = is_live ? Rest::kNone : Rest::kDone;
    if (model_.storages[s].owner >= 0) change.held_bytes += model_.storages[s].bytes;
  } else if (is_live) {
    state.rest[s] = Rest::kNone;
  }
}

Change Rules::run(std::int32_t op, const State& state) const {
  const SpanOp& of = model_.ops[static_cast<std::size_t>(op)];
  Change change{.decision = KeepDecision::kRun, .state = state, .cost = of.cost};
  for (const std::int32_t t : of.made) {
    if (tensor(t).is_saved()) raise_trigger(tensor(t).last_saver, change.state);
  }
  for (const std::int32_t t : of.inputs) change.state.is_needed[static_cast<std::size_t>(t)] = 1;
  change.run_bytes = of.run_bytes;
  for (std::size_t s = 0; s < model_.storages.size(); ++s) add_live(op, s, change);
  std::sort(change.unsure.begin(), change.unsure.end());
  return change;
}

void Rules::raise_trigger(std::int32_t saver, State& state) const {
  if (is_run_in_order_ || saver <= state.trigger) return;
  state.trigger = saver;
  for (std::size_t s = 0; s < model_.storages.size(); ++s) {
    for (const std::int32_t t : model_.storages[s].tensors) {
      if (tensor(t).first_saver <= saver) state.rest[s] = Rest::kNone;
    }
  }
}

// What of the storage is live while the recompute runs `op`, above the bytes that a label holds,
// which are those of all that is kept behind and of this storage if it is.
void Rules::add_live(std::int32_t op, std::size_t s, Change& change) const {
  const SpanStorage& storage = model_.storages[s];
  if (storage.is_always_held) return;
  const Rest rest = change.state.rest[s];
  const std::int32_t code = code_of_storage(static_cast<std::int32_t>(s));
  if (storage.owner >= op) {  // closed, or made by the run itself
    if (rest == Rest::kDone) change.run_bytes -= storage.bytes;
    if (rest == Rest::kDone) change.unsure.push_back(code);
    if (rest == Rest::kExtra) change.run_bytes += storage.bytes;
    return;
  }
  const bool is_held = change.state.is_held[s] != 0;
  if (is_held && storage.owner >= 0) change.run_bytes -= storage.bytes;
  std::vector<std::int32_t> unsure;
  bool is_live =
      change.state.is_kept[s] != 0 && rest != Rest::kDone && (is_held || is_run_in_order_);
  bool is_done = rest == Rest::kDone;
  for (const std::int32_t t : storage.tensors) {
    if (tensor(t).producer >= op) continue;
    is_done = is_done || (tensor(t).producer < 0 && tensor(t).is_saved());
    is_live = is_live || is_surely_live(op, t, change.state);
    if (is_perhaps_live(op, t)) unsure.push_back(t);
  }
  if (is_done) unsure.push_back(code);
  if (is_live) {
    change.run_bytes += storage.bytes;
  } else {
    change.unsure.insert(change.unsure.end(), unsure.begin(), unsure.end());
  }
}

// Of a tensor that is made before `op`, or handed to the span: while the recompute runs `op`.
bool Rules::is_surely_live(std::int32_t op, std::int32_t t, const State& state) const {
  const SpanTensor& of = tensor(t);
  if (is_set(state.is_needed, t) || (of.is_saved() && of.first_saver <= state.trigger)) {
    return true;
  }
  return is_run_in_order_ && of.producer >= 0 &&
         model_.ops[static_cast<std::size_t>(of.producer)].may_rerun &&
         std::max(of.last_reader, of.held_until) >= op;
}

// By what is decided about its op: with `needed` alone.
bool Rules::is_perhaps_live(std::int32_t op, std::int32_t t) const {
  const SpanTensor& of = tensor(t);
  if (is_run_in_order_) return false;
  if (of.producer < 0) return false;
  return of.is_saved() || of.held_until >= op;
}

// What was unsure of the tensors that the op makes, and of storages by the trigger.
void Rules::settle(std::int32_t op, const State& before, Change& change) const {
  for (const std::int32_t t : model_.ops[static_cast<std::size_t>(op)].made) {
    if (tensor(t).storage < 0) continue;
    const bool is_kept = change.decision == KeepDecision::kKept && tensor(t).is_saved();
    const bool is_read = is_kept && tensor(t).first_saver <= change.state.trigger;
    if (change.decision == KeepDecision::kRun || is_read) {
      change.live.push_back(t);
    } else {
      (is_kept ? change.done : change.gone).push_back(t);
    }
  }
  if (change.state.trigger == before.trigger) return;
  for (std::size_t s = 0; s < model_.storages.size(); ++s) {
    const std::vector<std::int32_t>& tensors = model_.storages[s].tensors;
    const bool is_lifted = std::any_of(tensors.begin(), tensors.end(), [&](std::int32_t t) {
      return tensor(t).first_saver > before.trigger &&
             tensor(t).first_saver <= change.state.trigger;
    });
    if (is_lifted) change.live.push_back(code_of_storage(static_cast<std::int32_t>(s)));
  }
}

// Behind the decision nothing of the op is open.
void Rules::close(std::int32_t op, State& state) const {
  for (const std::int32_t t : model_.ops[static_cast<std::size_t>(op)].made) {
    state.is_needed[static_cast<std::size_t>(t)] = 0;
    const std::int32_t s = tensor(t).storage;
    if (s < 0) continue;
    const auto i = static_cast<std::size_t>(s);
    if (model_.storages[i].owner == op) state.is_kept[i] = state.is_held[i] = 0;
  }
}

}  // namespace cairn
