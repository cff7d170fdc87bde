#include "planner/keep_search.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <map>
#include <tuple>
#include <utility>

#include "planner/keep_rules.h"

namespace cairn {
namespace {

// Each set of codes once.
class UnsureSets {
 public:
  static constexpr std::int32_t kEmpty = 0;

  explicit UnsureSets(const Rules& rules) : rules_(rules) { number({}); }

  std::int32_t number(const std::vector<std::int32_t>& codes) {
    const auto next = static_cast<std::int32_t>(sets_.size());
    const auto [found, is_new] = numbers_.try_emplace(codes, next);
    if (is_new) sets_.push_back({.codes = codes, .bytes = bytes_of(codes)});
    return found->second;
  }

  const std::vector<std::int32_t>& codes(std::int32_t set) const {
    return sets_[static_cast<std::size_t>(set)].codes;
  }
  std::int64_t bytes(std::int32_t set) const { return sets_[static_cast<std::size_t>(set)].bytes; }

  bool is_part(std::int32_t a, std::int32_t b) const {
    return a == b || a == kEmpty ||
           std::includes(codes(b).begin(), codes(b).end(), codes(a).begin(), codes(a).end());
  }

 private:
  struct Set {
    std::vector<std::int32_t> codes = {};
    std::int64_t bytes = 0;  // of their storages
  };

  std::int64_t bytes_of(const std::vector<std::int32_t>& codes) const {
    std::vector<std::int32_t> storages;
    for (const std::int32_t code : codes) storages.push_back(rules_.storage_of(code));
    std::sort(storages.begin(), storages.end());
    storages.erase(std::unique(storages.begin(), storages.end()), storages.end());
    std::int64_t bytes = 0;
    for (const std::int32_t storage : storages) bytes += rules_.storage_bytes(storage);
    return bytes;
  }

  const Rules& rules_;
  std::vector<Set> sets_ = {};
  std::map<std::vector<std::int32_t>, std::int32_t> numbers_ = {};
};

// A step of the recompute: its bytes, and the set of what may be live beside them.
struct RunStep {
  std::int64_t bytes = 0;
  std::int32_t unsure = UnsureSets::kEmpty;
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

// What a change makes of what was unsure, each set once.
class Settling {
 public:
  Settling(const Rules& rules, UnsureSets& sets, const Change& change)
      : rules_(rules), sets_(sets), change_(change), unsure_(sets.number(change.unsure)) {}

  // Of the step that the change adds.
  std::int32_t unsure() const { return unsure_; }

  void settle(RunStep& step) {
    const auto [found, is_new] = settled_.try_emplace(step.unsure);
    if (is_new) found->second = settled(step.unsure);
    step.bytes += found->second.bytes;
    step.unsure = found->second.unsure;
  }

 private:
  RunStep settled(std::int32_t set) {
    const auto is_in = [](const std::vector<std::int32_t>& list, std::int32_t code) {
      return std::find(list.begin(), list.end(), code) != list.end();
    };
    std::vector<std::int32_t> codes = sets_.codes(set);
    RunStep result;
    for (const std::int32_t code : sets_.codes(set)) {
      const std::int32_t storage = rules_.storage_of(code);
      if (!is_in(change_.live, code) || !is_in(codes, code)) continue;
      result.bytes += rules_.storage_bytes(storage);
      std::erase_if(codes, [&](auto other) { return rules_.storage_of(other) == storage; });
    }
    std::erase_if(codes, [&](std::int32_t code) { return is_in(change_.gone, code); });
    for (std::int32_t& code : codes) {
      if (is_in(change_.done, code)) code = rules_.code_of_storage(rules_.storage_of(code));
    }
    std::sort(codes.begin(), codes.end());
    codes.erase(std::unique(codes.begin(), codes.end()), codes.end());
    result.unsure = sets_.number(codes);
    return result;
  }

  const Rules& rules_;
  UnsureSets& sets_;
  const Change& change_;
  std::int32_t unsure_ = UnsureSets::kEmpty;
  std::map<std::int32_t, RunStep> settled_ = {};
};

// Pairs of cost and bytes of which none is at most another in both.
class Staircase {
 public:
  // Is one of them at most these?
  bool reaches(std::int64_t cost, std::int64_t bytes) const {
    const auto behind = bytes_by_cost_.upper_bound(cost);
    return behind != bytes_by_cost_.begin() && std::prev(behind)->second <= bytes;
  }

  void add(std::int64_t cost, std::int64_t bytes) {
    if (reaches(cost, bytes)) return;
    auto next = bytes_by_cost_.lower_bound(cost);
    while (next != bytes_by_cost_.end() && next->second >= bytes) {
      next = bytes_by_cost_.erase(next);
    }
    bytes_by_cost_.emplace_hint(next, cost, bytes);
  }

 private:
  std::map<std::int64_t, std::int64_t> bytes_by_cost_ = {};  // bytes fall as cost rises
};

class Search {
 public:
  Search(const SpanModel& model, const RunFloors& floors, std::size_t most_labels)
      : model_(model), rules_(model), unsure_(rules_), floors_(floors), most_labels_(most_labels) {}

  KeepCandidates run() {
    groups_[rules_.first_state()] = {Label{}};
    for (std::size_t op = model_.ops.size(); op-- > 0;) step(static_cast<std::int32_t>(op));
    for (const auto& [_, labels] : groups_) {
      for (const Label& label : labels) found_.all.push_back(candidate(label));
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
        Settling settling(rules_, unsure_, change);
        for (const Label& label : labels) group.push_back(changed(label, change, settling));
      }
    }
    std::size_t label_count = 0;
    for (auto& [state, labels] : next) {
      drop_beaten(floors_[static_cast<std::size_t>(state.trigger) + 1], labels);
      label_count += labels.size();
    }
    if (label_count > most_labels_) thin(next);
    groups_ = std::move(next);
  }

  Label changed(const Label& label, const Change& change, Settling& settling) {
    Label result = label;
    for (RunStep& step : result.steps) {
      if (step.unsure != UnsureSets::kEmpty) settling.settle(step);
    }
    if (change.decision == KeepDecision::kRun) {
      result.steps.push_back({label.held_bytes + change.run_bytes, settling.unsure()});
    }
    result.held_bytes += change.held_bytes;
    result.cost += change.cost;
    nodes_.push_back({.before = label.node, .decision = change.decision});
    result.node = static_cast<std::int32_t>(nodes_.size()) - 1;
    return result;
  }

  // A step that is no larger than another, whatever is decided, is left out; so is one below the
  // floor.
  void drop_steps(std::int64_t floor_bytes, Label& label) const {
    std::erase_if(label.steps, [&](RunStep step) { return most_bytes(step) <= floor_bytes; });
    if (label.steps.size() < 2) return;
    std::sort(label.steps.begin(), label.steps.end(), [](RunStep a, RunStep b) {
      return a.bytes != b.bytes ? a.bytes > b.bytes : a.unsure < b.unsure;
    });
    std::size_t left = 0;
    for (const RunStep step : label.steps) {
      const auto end = label.steps.begin() + static_cast<std::ptrdiff_t>(left);
      const bool is_below = std::any_of(
          label.steps.begin(), end, [&](RunStep other) { return is_surely_below(step, other); });
      if (!is_below) label.steps[left++] = step;
    }
    label.steps.resize(left);
  }

  std::int64_t most_bytes(RunStep step) const { return step.bytes + unsure_.bytes(step.unsure); }

  bool is_surely_below(RunStep a, RunStep b) const {
    if (a.bytes > b.bytes) return false;
    return most_bytes(a) <= b.bytes || unsure_.is_part(a.unsure, b.unsure);
  }

  bool is_surely_below(const Label& a, const Label& b) const {
    return std::all_of(a.steps.begin(), a.steps.end(), [&](RunStep step) {
      return std::any_of(b.steps.begin(), b.steps.end(),
                         [&](RunStep other) { return is_surely_below(step, other); });
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
    Staircase plain;                // of those left whose run has one step that matters, a sure one
    std::vector<std::size_t> high;  // of those with more
    std::int64_t least_cost = std::numeric_limits<std::int64_t>::max();  // of those with none
    for (Label& label : labels) {
      if (least_cost <= label.cost) continue;
      if (!label.steps.empty() && plain.reaches(label.cost, label.steps[0].bytes)) continue;
      const bool is_beaten = std::any_of(high.begin(), high.end(), [&](std::size_t other) {
        return left[other].cost <= label.cost && is_surely_below(left[other], label);
      });
      if (is_beaten) continue;
      if (label.steps.empty()) {
        least_cost = label.cost;
      } else if (label.steps.size() == 1 && label.steps[0].unsure == UnsureSets::kEmpty) {
        plain.add(label.cost, label.steps[0].bytes);
      } else {
        high.push_back(left.size());
      }
      left.push_back(std::move(label));
    }
    labels = std::move(left);
  }

  // Keeps the cheapest of each range of held bytes, of all groups together.
  void thin(Groups& groups) {
    found_.is_complete = false;
    std::int64_t least_bytes = std::numeric_limits<std::int64_t>::max();
    std::int64_t most_bytes = 0;
    for (const auto& [_, labels] : groups) {
      for (const Label& label : labels) {
        least_bytes = std::min(least_bytes, label.held_bytes);
        most_bytes = std::max(most_bytes, label.held_bytes);
      }
    }
    constexpr std::size_t kOfRange = 4;
    const std::size_t range_count = std::max<std::size_t>(1, most_labels_ / kOfRange);
    const auto width = static_cast<double>(most_bytes - least_bytes + 1);
    std::vector<std::vector<std::int64_t>> costs(range_count);
    const auto range_of = [&](const Label& label) {
      const double share = static_cast<double>(label.held_bytes - least_bytes) / width;
      return static_cast<std::size_t>(share * static_cast<double>(range_count));
    };
    for (const auto& [_, labels] : groups) {
      for (const Label& label : labels) costs[range_of(label)].push_back(label.cost);
    }
    for (std::vector<std::int64_t>& of_range : costs) std::sort(of_range.begin(), of_range.end());
    std::vector<std::size_t> left(range_count, kOfRange);
    for (auto& [_, labels] : groups) {
      std::erase_if(labels, [&](const Label& label) {
        const std::size_t range = range_of(label);
        const bool is_cheap =
            costs[range].size() <= kOfRange || label.cost <= costs[range][kOfRange - 1];
        if (!is_cheap || left[range] == 0) return true;
        --left[range];
        return false;
      });
    }
    std::erase_if(groups, [](const auto& group) { return group.second.empty(); });
  }

  KeepCandidate candidate(const Label& label) const {
    std::vector<KeepDecision> of_op;
    std::int32_t node = label.node;
    for (std::size_t op = 0; op < model_.ops.size(); ++op) {
      of_op.push_back(nodes_[static_cast<std::size_t>(node)].decision);
      node = nodes_[static_cast<std::size_t>(node)].before;
    }
    KeepCandidate found = rules_.follow(std::move(of_op));
    for (const RunStep step : label.steps) {
      found.run_peak_bytes = std::max(found.run_peak_bytes, step.bytes);
    }
    return found;
  }

  const SpanModel& model_;
  Rules rules_;
  UnsureSets unsure_;
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
