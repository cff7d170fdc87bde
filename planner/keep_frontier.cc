#include "planner/keep_frontier.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <tuple>
#include <utility>

#include "graph/error.h"
#include "planner/keep_search.h"
#include "planner/span_model.h"

namespace cairn {
namespace {

// Steps of the search are as many as ops, and cost as many looks at as many storages.
std::size_t labels_within_reason(std::size_t op_count, std::size_t most_labels) {
  constexpr double kUsualOps = 60;
  const double times = std::max(1.0, static_cast<double>(op_count) / kUsualOps);
  const auto labels =
      static_cast<std::size_t>(static_cast<double>(most_labels) / (times * times * times));
  return std::max<std::size_t>(labels, 64);
}

class Frontier {
 public:
  Frontier(const Graph& graph, const Span& span, const Setting& setting, const OpCosts& costs,
           const KeepConstraints& constraints, std::size_t most_labels)
      : graph_(graph),
        span_(span),
        setting_(setting),
        costs_(costs),
        most_labels_(most_labels),
        model_(span_model(graph, span, setting.extent, costs, constraints)),
        profile_(span_profile(graph, span, {}, setting)),
        nothing_(keep_nothing(span_model(graph, span, setting.extent, costs, {}))) {
    follows_profile_ = constraints.keep.empty();
  }

  KeepFrontier find() {
    if (setting_.extent == Extent::kWhole || profile_.recomputed.empty()) return single_set();
    if (holds_views_by_force()) {
      frontier_.is_exact = false;
      return single_set();
    }
    check_nothing();
    find_gradients();
    const KeepCandidates candidates =
        keep_candidates(model_, floors(), labels_within_reason(model_.ops.size(), most_labels_));
    if (candidates.all.empty()) refuse();
    for (const KeepCandidate& candidate : candidates.all) {
      frontier_.sets.push_back(set_of(candidate));
    }
    frontier_.is_exact = candidates.is_complete;
    drop_beaten();
    return std::move(frontier_);
  }

 private:
  using Place = std::int32_t;  // of an op in the span

  Place place(OpId op) const { return static_cast<Place>(op) - span_.begin; }
  const SpanTensor& tensor(std::int32_t t) const {
    return model_.tensors[static_cast<std::size_t>(t)];
  }

  // What may not run again holds views of what may: made again, their storage is there twice.
  bool holds_views_by_force() const {
    return std::any_of(model_.tensors.begin(), model_.tensors.end(), [&](const SpanTensor& of) {
      if (of.producer < 0 || of.storage < 0) return false;
      if (model_.ops[static_cast<std::size_t>(of.producer)].may_rerun) return false;
      return model_.storages[static_cast<std::size_t>(of.storage)].owner != of.producer;
    });
  }

  std::int64_t cost_of(const std::vector<OpId>& ops) const {
    std::int64_t cost = 0;
    for (const OpId op : ops) cost += costs_.forward[index(op)];
    return cost;
  }

  // The decisions, followed by hand, are what the simulator saw.
  void check_nothing() const {
    CAIRN_CHECK(nothing_.cost == cost_of(profile_.recomputed),
                fmt::format("recompute of [{}, {}) costs {} and {}", span_.begin, span_.end,
                            nothing_.cost, cost_of(profile_.recomputed)));
    CAIRN_CHECK(nothing_.trigger == place(profile_.trigger),
                fmt::format("recompute of [{}, {}) before the Backward of {} and {}", span_.begin,
                            span_.end, nothing_.trigger, place(profile_.trigger)));
  }

  // Nothing to choose: there is no recompute, or one that runs all in any case.
  KeepFrontier single_set() {
    KeepSet set;
    for (const SpanTensor& of : model_.tensors) {
      if (of.must_keep) set.keep.push_back(of.id);
    }
    std::sort(set.keep.begin(), set.keep.end());
    KeepCandidate candidate = nothing_;
    for (std::size_t t = 0; t < model_.tensors.size(); ++t) {
      if (model_.tensors[t].must_keep) candidate.is_kept[t] = true;
    }
    set.recompute_cost = cost_of(profile_.recomputed);
    set.held_bytes = always_held_bytes();
    for (std::size_t s = 0; s < model_.storages.size(); ++s) {
      if (is_held(s, candidate)) set.held_bytes += model_.storages[s].bytes;
    }
    simulate(set);
    frontier_.sets.push_back(std::move(set));
    return std::move(frontier_);
  }

  [[noreturn]] void refuse() const {
    for (const SpanTensor& of : model_.tensors) {
      if (!of.must_keep && !of.must_drop) continue;
      if (of.must_keep && of.must_drop) {
        throw InputError(
            fmt::format("'{}' cannot be both kept and recomputed", graph_.tensor(of.id).name));
      }
      throw InputError(fmt::format("'{}' cannot be {} by a region over '{}' to '{}'",
                                   graph_.tensor(of.id).name, of.must_keep ? "kept" : "recomputed",
                                   graph_.op(static_cast<OpId>(span_.begin)).name,
                                   graph_.op(static_cast<OpId>(span_.end - 1)).name));
    }
    CAIRN_CHECK(false, "no keep list at all");
  }

  // By place of the trigger: gradients, and what is handed to the span for good, live before it.
  void find_gradients() {
    gradient_bytes_.assign(model_.ops.size(), 0);
    for (std::size_t i = 0; i < model_.ops.size(); ++i) {
      const auto op = static_cast<Place>(i);
      saved_bytes_.push_back(find_saved_bytes(op));
      saved_behind_bytes_.push_back(find_saved_bytes(op - 1));
    }
    for (std::size_t i = 0; i < model_.ops.size(); ++i) {
      const auto op = static_cast<Place>(i);
      nothing_live_bytes_.push_back(live_bytes(op, false, nothing_));
      nothing_live_behind_bytes_.push_back(live_bytes(op, true, nothing_));
    }
    for (Place op = 0; op <= place(profile_.trigger); ++op) {
      const auto i = static_cast<std::size_t>(op);
      gradient_bytes_[i] = profile_.before_backward_bytes[i] - saved_bytes_[i];
    }
  }

  // Of storages that Backwards of ops up to `last` read.
  std::int64_t find_saved_bytes(Place last) const {
    std::int64_t bytes = 0;
    for (const SpanStorage& storage : model_.storages) {
      if (storage.is_always_held) continue;
      const bool is_read = std::any_of(storage.tensors.begin(), storage.tensors.end(),
                                       [&](auto t) { return tensor(t).first_saver <= last; });
      if (is_read) bytes += storage.bytes;
    }
    return bytes;
  }

  RunFloors floors() const {
    constexpr std::int64_t kNoFloor = std::numeric_limits<std::int64_t>::min();
    RunFloors floors(model_.ops.size() + 1, kNoFloor);
    std::vector<std::int64_t> above;  // by trigger: the largest Backward from it on
    std::int64_t largest_bytes = 0;
    for (Place op = 0; op <= place(profile_.trigger); ++op) {
      const auto i = static_cast<std::size_t>(op);
      largest_bytes =
          std::max({largest_bytes, profile_.backward_bytes[i], profile_.behind_bytes[i]});
      above.push_back(largest_bytes - gradient_bytes_[i]);
    }
    std::int64_t floor = std::numeric_limits<std::int64_t>::max();
    for (std::size_t i = above.size(); i-- > 0;) {
      const Op& op = graph_.op(model_.ops[i].id);
      const bool may_trigger = setting_.extent == Extent::kPrefix
                                   ? static_cast<Place>(i) == place(profile_.trigger)
                                   : op.has_backward && !op.saved.empty();
      if (may_trigger) floor = std::min(floor, above[i]);
      floors[i + 1] = floor;
    }
    floors[0] = floors[1];
    return floors;
  }

  bool is_held(std::size_t s, const KeepCandidate& candidate) const {
    const SpanStorage& storage = model_.storages[s];
    if (storage.is_always_held) return false;
    return std::any_of(storage.tensors.begin(), storage.tensors.end(), [&](std::int32_t t) {
      const auto i = static_cast<std::size_t>(t);
      const bool is_read = tensor(t).is_saved() || candidate.is_read_again[i];
      if (candidate.is_kept[i]) return is_read;
      return tensor(t).producer < 0 && is_read;
    });
  }

  std::int64_t always_held_bytes() const {
    std::int64_t bytes = 0;
    for (const SpanStorage& storage : model_.storages) {
      if (storage.is_always_held) bytes += storage.bytes;
    }
    return bytes;
  }

  // What the span holds during the Backward of `op`, or behind its frees.
  std::int64_t live_bytes(Place op, bool behind, const KeepCandidate& candidate) const {
    if (op <= candidate.trigger) {
      return (behind ? saved_behind_bytes_ : saved_bytes_)[static_cast<std::size_t>(op)];
    }
    const Place last = behind ? op - 1 : op;
    std::int64_t bytes = 0;
    for (const SpanStorage& storage : model_.storages) {
      if (storage.is_always_held) continue;
      const bool is_live =
          std::any_of(storage.tensors.begin(), storage.tensors.end(), [&](std::int32_t t) {
            const auto i = static_cast<std::size_t>(t);
            if (!candidate.is_kept[i] && tensor(t).producer >= 0) return false;
            return setting_.extent == Extent::kPrefix || candidate.is_read_again[i] ||
                   tensor(t).first_saver <= last;
          });
      if (is_live) bytes += storage.bytes;
    }
    return bytes;
  }

  // Those of the profile, with what this candidate holds in place of what keeping nothing does.
  std::int64_t backwards_peak_bytes(const KeepCandidate& candidate) const {
    std::int64_t peak_bytes = 0;
    for (std::size_t i = 0; i < model_.ops.size(); ++i) {
      if (!graph_.op(model_.ops[i].id).has_backward) continue;
      const auto op = static_cast<Place>(i);
      for (const bool behind : {false, true}) {
        const std::int64_t bytes = behind ? profile_.behind_bytes[i] - nothing_live_behind_bytes_[i]
                                          : profile_.backward_bytes[i] - nothing_live_bytes_[i];
        peak_bytes = std::max(peak_bytes, bytes + live_bytes(op, behind, candidate));
      }
    }
    return peak_bytes;
  }

  // Forward adds what is held here, and not where nothing is kept, from its last use on; and what
  // a kept auxiliary costs its op.
  std::int64_t forward_peak_bytes(const KeepCandidate& candidate) const {
    std::vector<std::int64_t> change(model_.storages.size(), 0);
    for (std::size_t s = 0; s < model_.storages.size(); ++s) {
      const int more = (is_held(s, candidate) ? 1 : 0) - (is_held(s, nothing_) ? 1 : 0);
      change[s] = model_.storages[s].bytes * more;
    }
    std::int64_t peak_bytes = 0;
    for (std::size_t i = 0; i < model_.ops.size(); ++i) {
      std::int64_t bytes = profile_.forward_bytes[i];
      for (std::size_t s = 0; s < model_.storages.size(); ++s) {
        if (model_.storages[s].last_forward_use < static_cast<Place>(i)) bytes += change[s];
      }
      const int more =
          (keeps_auxiliary(i, candidate) ? 1 : 0) - (keeps_auxiliary(i, nothing_) ? 1 : 0);
      peak_bytes = std::max(peak_bytes, bytes + more * model_.ops[i].unswept_bytes);
    }
    return peak_bytes;
  }

  bool keeps_auxiliary(std::size_t op, const KeepCandidate& candidate) const {
    const std::vector<std::int32_t>& auxiliaries = model_.ops[op].auxiliaries;
    return std::any_of(auxiliaries.begin(), auxiliaries.end(), [&](std::int32_t t) {
      return candidate.is_kept[static_cast<std::size_t>(t)];
    });
  }

  KeepSet set_of(const KeepCandidate& candidate) {
    KeepSet set{.held_bytes = always_held_bytes(), .recompute_cost = candidate.cost};
    for (std::size_t t = 0; t < model_.tensors.size(); ++t) {
      const SpanTensor& of = model_.tensors[t];
      if (candidate.is_kept[t] && model_.ops[static_cast<std::size_t>(of.producer)].may_rerun) {
        set.keep.push_back(of.id);
      }
    }
    std::sort(set.keep.begin(), set.keep.end());
    for (std::size_t s = 0; s < model_.storages.size(); ++s) {
      if (is_held(s, candidate)) set.held_bytes += model_.storages[s].bytes;
    }
    set.forward_peak_bytes = forward_peak_bytes(candidate);
    set.backward_peak_bytes = backwards_peak_bytes(candidate);
    const bool runs = std::any_of(candidate.of_op.begin(), candidate.of_op.end(),
                                  [](auto of) { return of == KeepDecision::kRun; });
    if (runs) {
      const std::int64_t gradients = gradient_bytes_[static_cast<std::size_t>(candidate.trigger)];
      set.backward_peak_bytes =
          std::max(set.backward_peak_bytes, gradients + candidate.run_peak_bytes);
    }
    if (!follows_profile_) simulate(set);
    return set;
  }

  void simulate(KeepSet& set) {
    const SpanProfile profile = span_profile(graph_, span_, set.keep, setting_);
    CAIRN_CHECK(cost_of(profile.recomputed) == set.recompute_cost,
                fmt::format("a recompute of [{}, {}) costs {} and {}", span_.begin, span_.end,
                            cost_of(profile.recomputed), set.recompute_cost));
    set.forward_peak_bytes = profile.forward_peak_bytes;
    set.backward_peak_bytes = profile.backward_peak_bytes;
    ++frontier_.simulation_count;
  }

  void drop_beaten() {
    std::sort(frontier_.sets.begin(), frontier_.sets.end(), [](const KeepSet& a, const KeepSet& b) {
      return std::tie(a.held_bytes, a.recompute_cost, a.backward_peak_bytes, a.forward_peak_bytes,
                      a.keep) < std::tie(b.held_bytes, b.recompute_cost, b.backward_peak_bytes,
                                         b.forward_peak_bytes, b.keep);
    });
    std::vector<KeepSet> left;
    for (KeepSet& set : frontier_.sets) {
      const bool is_beaten = std::any_of(left.begin(), left.end(), [&](const KeepSet& other) {
        return other.recompute_cost <= set.recompute_cost &&
               other.backward_peak_bytes <= set.backward_peak_bytes;
      });
      if (!is_beaten) left.push_back(std::move(set));
    }
    frontier_.sets = std::move(left);
  }

  const Graph& graph_;
  const Span& span_;
  const Setting& setting_;
  const OpCosts& costs_;
  std::size_t most_labels_ = 0;
  SpanModel model_;
  SpanProfile profile_;    // of keeping nothing
  KeepCandidate nothing_;  // the same, in decisions
  bool follows_profile_ = true;
  // By op: gradients live before its Backward; what of the span its Backward and all later ones
  // read, and all later ones alone; what of it is live then where nothing is kept.
  std::vector<std::int64_t> gradient_bytes_ = {};
  std::vector<std::int64_t> saved_bytes_ = {};
  std::vector<std::int64_t> saved_behind_bytes_ = {};
  std::vector<std::int64_t> nothing_live_bytes_ = {};
  std::vector<std::int64_t> nothing_live_behind_bytes_ = {};
  KeepFrontier frontier_ = {};
};

}  // namespace

KeepFrontier keep_frontier(const Graph& graph, const Span& span, const Setting& setting,
                           const OpCosts& costs, const KeepConstraints& constraints,
                           std::size_t most_labels) {
  return Frontier(graph, span, setting, costs, constraints, most_labels).find();
}

}  // namespace cairn
