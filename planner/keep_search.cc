#include "planner/keep_search.h"

#include <algorithm>
#include <compare>
#include <limits>
#include <map>
#include <tuple>
#include <utility>

namespace cairn {
namespace {

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

  friend auto operator<=>(const State&, const State&) = default;
};

struct Label {
  std::int64_t held_bytes = 0;
  std::int64_t cost = 0;
  std::int64_t least_run_bytes = 0;
  std::int64_t most_run_bytes = 0;
  std::int32_t node = -1;
};

struct Node {
  std::int32_t before = -1;  // the node of the op behind
  KeepDecision decision = KeepDecision::kNone;
};

struct Change {
  KeepDecision decision = KeepDecision::kNone;
  State state = {};
  std::int64_t held_bytes = 0;
  std::int64_t cost = 0;
  // Of the run, above what a label holds.
  std::int64_t least_run_bytes = 0;
  std::int64_t most_run_bytes = 0;
};

// The rules of one op: what may be decided about it, and what that changes.
class Rules {
 public:
  // `may_make_again`: storages that are held, too.
  explicit Rules(const SpanModel& model, bool may_make_again = false)
      : model_(model), may_make_again_(may_make_again) {
    is_run_in_order_ = model.extent != Extent::kNeeded;
  }

  State first_state() const {
    return {.is_needed = std::vector<std::uint8_t>(model_.tensors.size(), 0),
            .is_kept = std::vector<std::uint8_t>(model_.storages.size(), 0),
            .is_held = std::vector<std::uint8_t>(model_.storages.size(), 0),
            .rest = std::vector<Rest>(model_.storages.size(), Rest::kNone),
            .trigger = model_.trigger};
  }

  std::vector<Change> changes(std::int32_t op, const State& state) const {
    std::vector<Change> changes;
    const SpanOp& of = model_.ops[static_cast<std::size_t>(op)];
    const bool is_needed = std::any_of(of.made.begin(), of.made.end(),
                                       [&](std::int32_t t) { return needs(state, t); });
    const bool must_keep = std::any_of(of.made.begin(), of.made.end(),
                                       [&](std::int32_t t) { return tensor(t).must_keep; });
    const bool must_run = is_run_in_order_ ? op < model_.stop && of.may_rerun : is_needed;
    if (!is_needed && !must_run && !must_keep) {
      changes.push_back({.state = state});
    } else {
      if (may_keep(op, state, must_run)) changes.push_back(keep(op, state));
      if (must_run && of.may_rerun && !must_keep && (may_make_again_ || !owns_kept(op, state))) {
        changes.push_back(run(op, state));
      }
    }
    for (Change& change : changes) close(op, change.state);
    return changes;
  }

  // What comes of one decision for each op.
  KeepCandidate follow(std::vector<KeepDecision> of_op) const {
    KeepCandidate found{.of_op = std::move(of_op),
                        .is_kept = std::vector<bool>(model_.tensors.size(), false),
                        .is_read_again = std::vector<bool>(model_.tensors.size(), false)};
    State state = first_state();
    for (std::size_t i = model_.ops.size(); i-- > 0;) {
      const auto op = static_cast<std::int32_t>(i);
      for (Change& change : changes(op, state)) {
        if (change.decision != found.of_op[i]) continue;
        add(op, state, change, found);
        state = std::move(change.state);
        break;
      }
    }
    found.trigger = state.trigger;
    return found;
  }

  // Runs what may run.
  KeepCandidate follow_runs() const {
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

 private:
  const SpanTensor& tensor(std::int32_t t) const {
    return model_.tensors[static_cast<std::size_t>(t)];
  }

  void add(std::int32_t op, const State& state, const Change& change, KeepCandidate& found) const {
    if (change.decision == KeepDecision::kKept) {
      for (const std::int32_t t : kept_of(op, state)) {
        found.is_kept[static_cast<std::size_t>(t)] = true;
      }
    }
    if (change.decision == KeepDecision::kRun) {
      for (const std::int32_t t : model_.ops[static_cast<std::size_t>(op)].inputs) {
        found.is_read_again[static_cast<std::size_t>(t)] = true;
      }
      found.least_run_bytes =
          std::max(found.least_run_bytes, found.made_held_bytes + change.least_run_bytes);
      found.most_run_bytes =
          std::max(found.most_run_bytes, found.made_held_bytes + change.most_run_bytes);
    }
    found.made_held_bytes += change.held_bytes;
    found.cost += change.cost;
  }

  static bool is_set(const std::vector<std::uint8_t>& flags, std::int32_t i) {
    return flags[static_cast<std::size_t>(i)] != 0;
  }

  bool needs(const State& state, std::int32_t t) const {
    return tensor(t).is_saved() || is_set(state.is_needed, t);
  }

  // Its tensors that a keep list names: with `prefix` all, for else the op runs all the same.
  std::vector<std::int32_t> kept_of(std::int32_t op, const State& state) const {
    const SpanOp& of = model_.ops[static_cast<std::size_t>(op)];
    const bool takes_all = is_run_in_order_ && op < model_.stop && of.may_rerun;
    std::vector<std::int32_t> kept;
    for (const std::int32_t t : of.made) {
      if (takes_all || needs(state, t) || tensor(t).must_keep) kept.push_back(t);
    }
    return kept;
  }

  bool may_keep(std::int32_t op, const State& state, bool must_run) const {
    const bool is_forced = !model_.ops[static_cast<std::size_t>(op)].may_rerun;
    for (const std::int32_t t : kept_of(op, state)) {
      const bool is_read = needs(state, t) || tensor(t).is_read_outside;
      if (!is_read || tensor(t).must_drop) return false;
      if (tensor(t).is_overwritten && !is_forced) return false;
    }
    return must_run || is_forced || !kept_of(op, state).empty();
  }

  // A run of the op would make a storage again that is held.
  bool owns_kept(std::int32_t op, const State& state) const {
    for (const std::int32_t t : model_.ops[static_cast<std::size_t>(op)].made) {
      const std::int32_t s = tensor(t).storage;
      if (s >= 0 && model_.storages[static_cast<std::size_t>(s)].owner == op &&
          is_set(state.is_kept, s)) {
        return true;
      }
    }
    return false;
  }

  Change keep(std::int32_t op, const State& state) const {
    Change change{.decision = KeepDecision::kKept, .state = state};
    for (const std::int32_t t : kept_of(op, state)) {
      if (tensor(t).storage >= 0) keep_on_storage(t, state, change);
    }
    return change;
  }

  void keep_on_storage(std::int32_t t, const State& before, Change& change) const {
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

  Change run(std::int32_t op, const State& state) const {
    const SpanOp& of = model_.ops[static_cast<std::size_t>(op)];
    Change change{.decision = KeepDecision::kRun, .state = state, .cost = of.cost};
    for (const std::int32_t t : of.made) {
      if (tensor(t).is_saved()) raise_trigger(tensor(t).last_saver, change.state);
    }
    for (const std::int32_t t : of.inputs) change.state.is_needed[static_cast<std::size_t>(t)] = 1;
    change.least_run_bytes = of.run_bytes;
    change.most_run_bytes = of.run_bytes;
    for (std::size_t s = 0; s < model_.storages.size(); ++s) add_live(op, s, change);
    return change;
  }

  void raise_trigger(std::int32_t saver, State& state) const {
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
  void add_live(std::int32_t op, std::size_t s, Change& change) const {
    const SpanStorage& storage = model_.storages[s];
    if (storage.is_always_held) return;
    const Rest rest = change.state.rest[s];
    if (storage.owner >= op) {  // closed, or made by the run itself
      if (rest == Rest::kDone) change.least_run_bytes -= storage.bytes;
      if (rest == Rest::kExtra) change.least_run_bytes += storage.bytes;
      if (rest == Rest::kExtra) change.most_run_bytes += storage.bytes;
      return;
    }
    const bool is_held = change.state.is_held[s] != 0;
    bool is_perhaps = change.state.is_kept[s] != 0;
    bool is_surely = is_perhaps && rest != Rest::kDone && (is_held || is_run_in_order_);
    for (const std::int32_t t : storage.tensors) {
      if (tensor(t).producer >= op) continue;
      note_liveness(op, t, change.state, is_surely, is_perhaps);
    }
    const std::int64_t counted_bytes = is_held && storage.owner >= 0 ? storage.bytes : 0;
    change.least_run_bytes += (is_surely ? storage.bytes : 0) - counted_bytes;
    change.most_run_bytes += (is_perhaps ? storage.bytes : 0) - counted_bytes;
  }

  // Of a tensor that is made before `op`, or handed to the span.
  void note_liveness(std::int32_t op, std::int32_t t, const State& state, bool& is_surely,
                     bool& is_perhaps) const {
    const SpanTensor& of = tensor(t);
    if (of.is_saved()) {
      is_perhaps = true;
      is_surely = is_surely || of.first_saver <= state.trigger;
    }
    if (is_set(state.is_needed, t)) is_surely = is_perhaps = true;
    if (of.producer < 0) return;
    const std::int32_t name_until =
        is_run_in_order_ ? std::max(of.last_reader, of.held_until) : of.held_until;
    if (name_until < op) return;
    is_perhaps = true;
    const bool is_named =
        is_run_in_order_ && model_.ops[static_cast<std::size_t>(of.producer)].may_rerun;
    is_surely = is_surely || is_named;
  }

  // Behind the decision nothing of the op is open.
  void close(std::int32_t op, State& state) const {
    for (const std::int32_t t : model_.ops[static_cast<std::size_t>(op)].made) {
      state.is_needed[static_cast<std::size_t>(t)] = 0;
      const std::int32_t s = tensor(t).storage;
      if (s < 0) continue;
      const auto i = static_cast<std::size_t>(s);
      if (model_.storages[i].owner == op) state.is_kept[i] = state.is_held[i] = 0;
    }
  }

  const SpanModel& model_;
  bool may_make_again_ = false;
  bool is_run_in_order_ = false;
};

class Search {
 public:
  Search(const SpanModel& model, const RunFloors& floors, std::size_t most_labels)
      : model_(model), rules_(model), floors_(floors), most_labels_(most_labels) {}

  KeepCandidates run() {
    groups_[rules_.first_state()] = {Label{}};
    for (std::size_t op = model_.ops.size(); op-- > 0;) step(static_cast<std::int32_t>(op));
    for (const auto& [_, labels] : groups_) {
      for (const Label& label : labels) found_.all.push_back(rules_.follow(decisions(label)));
    }
    return std::move(found_);
  }

 private:
  using Groups = std::map<State, std::vector<Label>>;

  void step(std::int32_t op) {
    Groups next;
    for (const auto& [state, labels] : groups_) {
      for (const Change& change : rules_.changes(op, state)) {
        std::vector<Label>& group = next[change.state];
        for (const Label& label : labels) group.push_back(changed(label, change));
      }
    }
    std::size_t label_count = 0;
    for (auto& [state, labels] : next) {
      drop_beaten(floors_[static_cast<std::size_t>(state.trigger) + 1], labels);
      label_count += labels.size();
    }
    if (label_count > most_labels_) thin(label_count, next);
    groups_ = std::move(next);
  }

  Label changed(const Label& label, const Change& change) {
    Label result = label;
    result.held_bytes += change.held_bytes;
    result.cost += change.cost;
    if (change.decision == KeepDecision::kRun) {
      result.least_run_bytes =
          std::max(result.least_run_bytes, label.held_bytes + change.least_run_bytes);
      result.most_run_bytes =
          std::max(result.most_run_bytes, label.held_bytes + change.most_run_bytes);
    }
    nodes_.push_back({.before = label.node, .decision = change.decision});
    result.node = static_cast<std::int32_t>(nodes_.size()) - 1;
    return result;
  }

  // Of labels that leave the same open, those that no other beats however it goes on.
  static void drop_beaten(std::int64_t floor_bytes, std::vector<Label>& labels) {
    std::sort(labels.begin(), labels.end(), [](const Label& a, const Label& b) {
      return std::tie(a.held_bytes, a.cost, a.most_run_bytes, a.node) <
             std::tie(b.held_bytes, b.cost, b.most_run_bytes, b.node);
    });
    std::vector<Label> left;
    std::vector<Label> high;  // of them, those whose run may peak above the floor
    std::int64_t least_cost = std::numeric_limits<std::int64_t>::max();  // of the others
    for (const Label& label : labels) {
      if (least_cost <= label.cost) continue;
      const bool is_beaten = std::any_of(high.begin(), high.end(), [&](const Label& other) {
        return other.cost <= label.cost && other.most_run_bytes <= label.least_run_bytes;
      });
      if (is_beaten) continue;
      left.push_back(label);
      if (label.most_run_bytes <= floor_bytes) {
        least_cost = label.cost;
      } else {
        high.push_back(label);
      }
    }
    labels = std::move(left);
  }

  // Keeps a share of each group, evenly over its held bytes.
  void thin(std::size_t label_count, Groups& groups) {
    found_.is_complete = false;
    for (auto& [state, labels] : groups) {
      const std::size_t share =
          std::max<std::size_t>(2, labels.size() * most_labels_ / label_count);
      if (labels.size() <= share) continue;
      std::vector<Label> left;
      for (std::size_t i = 0; i < share; ++i) {
        left.push_back(labels[i * (labels.size() - 1) / (share - 1)]);
      }
      labels = std::move(left);
    }
  }

  std::vector<KeepDecision> decisions(const Label& label) const {
    std::vector<KeepDecision> of_op;
    std::int32_t node = label.node;
    for (std::size_t op = 0; op < model_.ops.size(); ++op) {
      of_op.push_back(nodes_[static_cast<std::size_t>(node)].decision);
      node = nodes_[static_cast<std::size_t>(node)].before;
    }
    return of_op;
  }

  const SpanModel& model_;
  Rules rules_;
  const RunFloors& floors_;
  std::size_t most_labels_ = 0;
  Groups groups_ = {};
  std::vector<Node> nodes_ = {};
  KeepCandidates found_ = {};
};

}  // namespace

KeepCandidates keep_candidates(const SpanModel& model, const RunFloors& floors,
                               std::size_t most_labels) {
  return Search(model, floors, most_labels).run();
}

KeepCandidate keep_nothing(const SpanModel& model) { return Rules(model, true).follow_runs(); }

}  // namespace cairn
