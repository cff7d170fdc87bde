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

// A step of the recompute: its bytes, and what may be live beside them. That is decided with the
// ops before: a tensor that names hold is live if its op runs. Codes are those of Rules::code.
struct RunStep {
  std::int64_t bytes = 0;
  std::vector<std::int32_t> unsure = {};  // sorted
};

struct Label {
  std::int64_t held_bytes = 0;
  std::int64_t cost = 0;
  std::vector<RunStep> steps = {};  // those that may be the largest
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
  RunStep step = {};  // of a run, above what a label holds
  // What becomes of what was unsure: live, or not; or unsure for its storage's sake.
  std::vector<std::int32_t> live = {};
  std::vector<std::int32_t> gone = {};
  std::vector<std::int32_t> done = {};
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
    for (Change& change : changes) {
      settle(op, state, change);
      close(op, change.state);
    }
    return changes;
  }

  // A tensor, or a storage whose Backwards may all be before the trigger.
  std::int32_t code_of_storage(std::int32_t s) const {
    return static_cast<std::int32_t>(model_.tensors.size()) + s;
  }
  std::int32_t storage_of(std::int32_t code) const {
    const auto tensor_count = static_cast<std::int32_t>(model_.tensors.size());
    return code >= tensor_count ? code - tensor_count : tensor(code).storage;
  }

  std::int64_t most_bytes(const RunStep& step) const {
    std::int64_t bytes = step.bytes;
    for (std::size_t i = 0; i < step.unsure.size(); ++i) {
      const std::int32_t s = storage_of(step.unsure[i]);
      const bool is_counted =
          std::any_of(step.unsure.begin(), step.unsure.begin() + static_cast<std::ptrdiff_t>(i),
                      [&](std::int32_t code) { return storage_of(code) == s; });
      if (!is_counted) bytes += model_.storages[static_cast<std::size_t>(s)].bytes;
    }
    return bytes;
  }

  void apply(const Change& change, Label& label) const {
    for (RunStep& step : label.steps) {
      if (!step.unsure.empty()) resolve(change, step);
    }
    if (change.decision == KeepDecision::kRun) {
      label.steps.push_back(change.step);
      label.steps.back().bytes += label.held_bytes;
    }
    label.held_bytes += change.held_bytes;
    label.cost += change.cost;
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
        found.cost += change.cost;
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
    }
  }

  // What was unsure of the tensors that the op makes, and of storages by the trigger.
  void settle(std::int32_t op, const State& before, Change& change) const {
    for (const std::int32_t t : model_.ops[static_cast<std::size_t>(op)].made) {
      if (tensor(t).storage < 0) continue;
      const bool is_late = tensor(t).is_saved() && tensor(t).first_saver > change.state.trigger;
      if (change.decision == KeepDecision::kRun) {
        change.live.push_back(t);
      } else if (change.decision == KeepDecision::kKept && is_late) {
        change.done.push_back(t);
      } else {
        change.gone.push_back(t);
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

  void resolve(const Change& change, RunStep& step) const {
    const auto is_in = [](const std::vector<std::int32_t>& list, std::int32_t code) {
      return std::find(list.begin(), list.end(), code) != list.end();
    };
    for (std::size_t i = 0; i < step.unsure.size();) {
      const std::int32_t code = step.unsure[i];
      const std::int32_t s = storage_of(code);
      if (is_in(change.live, code)) {
        step.bytes += model_.storages[static_cast<std::size_t>(s)].bytes;
        std::erase_if(step.unsure, [&](std::int32_t other) { return storage_of(other) == s; });
        i = 0;
        continue;
      }
      if (is_in(change.done, code)) {
        step.unsure[i] = code_of_storage(s);
      } else if (is_in(change.gone, code)) {
        step.unsure.erase(step.unsure.begin() + static_cast<std::ptrdiff_t>(i));
        continue;
      }
      ++i;
    }
    std::sort(step.unsure.begin(), step.unsure.end());
    step.unsure.erase(std::unique(step.unsure.begin(), step.unsure.end()), step.unsure.end());
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
    change.step.bytes = of.run_bytes;
    for (std::size_t s = 0; s < model_.storages.size(); ++s) add_live(op, s, change);
    std::sort(change.step.unsure.begin(), change.step.unsure.end());
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
    const std::int32_t code = code_of_storage(static_cast<std::int32_t>(s));
    if (storage.owner >= op) {  // closed, or made by the run itself
      if (rest == Rest::kDone) change.step.bytes -= storage.bytes;
      if (rest == Rest::kDone) change.step.unsure.push_back(code);
      if (rest == Rest::kExtra) change.step.bytes += storage.bytes;
      return;
    }
    const bool is_held = change.state.is_held[s] != 0;
    if (is_held && storage.owner >= 0) change.step.bytes -= storage.bytes;
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
      change.step.bytes += storage.bytes;
    } else {
      change.step.unsure.insert(change.step.unsure.end(), unsure.begin(), unsure.end());
    }
  }

  // Of a tensor that is made before `op`, or handed to the span: while the recompute runs `op`.
  bool is_surely_live(std::int32_t op, std::int32_t t, const State& state) const {
    const SpanTensor& of = tensor(t);
    if (is_set(state.is_needed, t) || (of.is_saved() && of.first_saver <= state.trigger)) {
      return true;
    }
    return is_run_in_order_ && of.producer >= 0 &&
           model_.ops[static_cast<std::size_t>(of.producer)].may_rerun &&
           std::max(of.last_reader, of.held_until) >= op;
  }

  // By what is decided about its op: with `needed` alone.
  bool is_perhaps_live(std::int32_t op, std::int32_t t) const {
    const SpanTensor& of = tensor(t);
    if (is_run_in_order_) return false;
    if (of.producer < 0) return false;
    return of.is_saved() || of.held_until >= op;
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
      for (const Label& label : labels) {
        found_.all.push_back(rules_.follow(decisions(label)));
        for (const RunStep& step : label.steps) {
          std::int64_t& peak_bytes = found_.all.back().run_peak_bytes;
          peak_bytes = std::max(peak_bytes, step.bytes);
        }
      }
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
    rules_.apply(change, result);
    nodes_.push_back({.before = label.node, .decision = change.decision});
    result.node = static_cast<std::int32_t>(nodes_.size()) - 1;
    return result;
  }

  // A step that is no larger than another, whatever is decided, is left out; so is one below the
  // floor.
  void drop_steps(std::int64_t floor_bytes, Label& label) const {
    std::erase_if(label.steps,
                  [&](const RunStep& step) { return rules_.most_bytes(step) <= floor_bytes; });
    std::sort(label.steps.begin(), label.steps.end(), [](const RunStep& a, const RunStep& b) {
      return std::tie(b.bytes, a.unsure) < std::tie(a.bytes, b.unsure);
    });
    std::vector<RunStep> left;
    for (RunStep& step : label.steps) {
      const bool is_below = std::any_of(left.begin(), left.end(), [&](const RunStep& other) {
        return is_surely_below(step, other);
      });
      if (!is_below) left.push_back(std::move(step));
    }
    label.steps = std::move(left);
  }

  bool is_surely_below(const RunStep& a, const RunStep& b) const {
    if (a.bytes > b.bytes) return false;
    return std::includes(b.unsure.begin(), b.unsure.end(), a.unsure.begin(), a.unsure.end()) ||
           rules_.most_bytes(a) <= b.bytes;
  }

  bool is_surely_below(const Label& a, const Label& b) const {
    return std::all_of(a.steps.begin(), a.steps.end(), [&](const RunStep& step) {
      return std::any_of(b.steps.begin(), b.steps.end(),
                         [&](const RunStep& other) { return is_surely_below(step, other); });
    });
  }

  // Of labels that leave the same open, those that no other beats however it goes on.
  void drop_beaten(std::int64_t floor_bytes, std::vector<Label>& labels) const {
    for (Label& label : labels) drop_steps(floor_bytes, label);
    std::sort(labels.begin(), labels.end(), [](const Label& a, const Label& b) {
      return std::tuple(a.held_bytes, a.cost, a.steps.size(), a.node) <
             std::tuple(b.held_bytes, b.cost, b.steps.size(), b.node);
    });
    std::vector<Label> left;
    std::vector<std::size_t> high;  // of them, those whose run may peak above the floor
    std::int64_t least_cost = std::numeric_limits<std::int64_t>::max();  // of the others
    for (Label& label : labels) {
      if (least_cost <= label.cost) continue;
      const bool is_beaten = std::any_of(high.begin(), high.end(), [&](std::size_t other) {
        return left[other].cost <= label.cost && is_surely_below(left[other], label);
      });
      if (is_beaten) continue;
      if (label.steps.empty()) {
        least_cost = label.cost;
      } else {
        high.push_back(left.size());
      }
      left.push_back(std::move(label));
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
