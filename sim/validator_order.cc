#include "sim/validator_order.h"

#include <algorithm>
#include <utility>

namespace cairn {
namespace {

bool contains(const std::vector<TensorId>& tensors, TensorId tensor) {
  return std::find(tensors.begin(), tensors.end(), tensor) != tensors.end();
}

bool contains(const Region& region, std::int32_t position) {
  return region.begin <= position && position < region.end;
}

// Is this so of any output or auxiliary of the op?
template <typename Predicate>
bool makes_any(const Op& op, Predicate predicate) {
  return std::any_of(op.outputs.begin(), op.outputs.end(), predicate) ||
         std::any_of(op.auxiliaries.begin(), op.auxiliaries.end(), predicate);
}

// A set that is emptied without a visit to each tensor.
class TensorSet {
 public:
  explicit TensorSet(std::size_t tensor_count) : round_of_(tensor_count, 0) {}

  void clear() { ++round_; }
  void insert(TensorId tensor) { round_of_[index(tensor)] = round_; }
  bool contains(TensorId tensor) const { return round_of_[index(tensor)] == round_; }

 private:
  std::vector<std::int32_t> round_of_;  // by tensor: when it was last inserted
  std::int32_t round_ = 1;              // one more than the clears so far
};

// A tensor that must be live when the Backward at `position` (or a recompute directly before it)
// runs.
struct Demand {
  TensorId tensor = kNoTensor;
  std::int32_t position = 0;
};

// Of several demands for a tensor, the latest position comes first in backward time.
void leave_the_latest(std::vector<Demand>& demands) {
  std::sort(demands.begin(), demands.end(), [](const Demand& a, const Demand& b) {
    return a.tensor != b.tensor ? a.tensor < b.tensor : a.position > b.position;
  });
  const auto is_same = [](const Demand& a, const Demand& b) { return a.tensor == b.tensor; };
  demands.erase(std::unique(demands.begin(), demands.end(), is_same), demands.end());
}

// Derives the rules of a region from those of the regions inside it.
class RuleMaker {
 public:
  RuleMaker(const Graph& graph, const Plan& plan)
      : graph_(graph),
        plan_(plan),
        kept_(kept_tensors(graph, plan)),
        made_at_(positions_of_makers(graph, plan)),
        dropped_at_(made_at_),
        needed_(graph.tensors.size()),
        listed_(graph.tensors.size()) {
    for (std::size_t i = 0; i < dropped_at_.size(); ++i) {
      const OpId producer = graph.tensors[i].producer;
      const bool may_rerun =
          producer != kNoOp && graph.op(producer).recompute != RecomputePolicy::kNever;
      if (kept_[i] || !may_rerun) dropped_at_[i] = kNoPosition;
    }
  }

  std::vector<RegionRule> make() {
    for (const Region& region : plan_.regions) add(region, /*is_nested=*/false);
    return std::move(rules_);
  }

 private:
  // What an outer region must know of an inner one.
  struct Added {
    std::int32_t trigger = kNoPosition;
    std::int32_t last_saving = kNoPosition;  // `prefix`: its last Backward that saves something
    bool has_inputs = false;
    std::vector<Demand> from_outside = {};  // for what an outer region may have dropped
  };

  const Op& op_at(std::int32_t position) const {
    return graph_.op(plan_.order[static_cast<std::size_t>(position)]);
  }

  bool makes(const Region& region, TensorId tensor) const {
    return contains(region, made_at_[index(tensor)]);
  }

  bool drops(const Region& region, TensorId tensor) const {
    return contains(region, dropped_at_[index(tensor)]);
  }

  // Not made in the region, but perhaps dropped by a region around it.
  bool may_be_dropped_outside(const Region& region, TensorId tensor) const {
    return dropped_at_[index(tensor)] != kNoPosition && !makes(region, tensor);
  }

  // Positions of the region's own ops: those in no inner region.
  std::vector<std::int32_t> own_positions(const Region& region) const {
    std::vector<std::int32_t> own;
    std::int32_t position = region.begin;
    for (const Region& inner : region.inner) {
      for (; position < inner.begin; ++position) own.push_back(position);
      position = inner.end;
    }
    for (; position < region.end; ++position) own.push_back(position);
    return own;
  }

  // Everything that ops anywhere in the region read from outside it.
  std::vector<TensorId> inputs_of(const Region& region) {
    std::vector<TensorId> inputs;
    listed_.clear();
    for (std::int32_t position = region.begin; position < region.end; ++position) {
      for (const TensorId input : op_at(position).inputs) {
        if (makes(region, input) || listed_.contains(input)) continue;
        listed_.insert(input);
        inputs.push_back(input);
      }
    }
    return inputs;
  }

  Added add(const Region& region, bool is_nested) {
    const std::size_t own = rules_.size();
    rules_.emplace_back();
    std::vector<Added> inner;
    for (const Region& each : region.inner) inner.push_back(add(each, /*is_nested=*/true));
    RegionRule rule{.begin = region.begin, .end = region.end};
    Added added;
    switch (plan_.extent) {
      case Extent::kNeeded:
        added.from_outside = apply_needed(region, inner, rule);
        break;
      case Extent::kPrefix:
        added.last_saving = apply_prefix(region, inner, is_nested, rule);
        break;
      case Extent::kWhole:
        apply_whole(region, rule);
        break;
    }
    rule.holds_what_it_is_passed = plan_.extent != Extent::kNeeded;
    added.trigger = rule.trigger;
    added.has_inputs = !rule.inputs.empty();
    rules_[own] = std::move(rule);
    return added;
  }

  // What the frame holds, rule 14: its own ops' saved tensors, and what inner regions read from
  // outside themselves. Those inputs must be there when the inner region is recomputed.
  std::vector<Demand> demands_of_frame(const Region& region,
                                       const std::vector<Added>& inner) const {
    std::vector<Demand> demands;
    for (const std::int32_t position : own_positions(region)) {
      if (!op_at(position).has_backward) continue;
      for (const TensorId saved : op_at(position).saved) demands.push_back({saved, position});
    }
    for (const Added& each : inner) {
      for (const Demand& demand : each.from_outside) {
        demands.push_back({demand.tensor, std::max(demand.position, each.trigger)});
      }
    }
    return demands;
  }

  // Rules 18 and 19. Returns the demands for what others made.
  std::vector<Demand> apply_needed(const Region& region, const std::vector<Added>& inner,
                                   RegionRule& rule) {
    std::vector<Demand> from_outside;
    needed_.clear();
    for (const Demand& demand : demands_of_frame(region, inner)) {
      if (drops(region, demand.tensor)) {
        needed_.insert(demand.tensor);
        rule.trigger = std::max(rule.trigger, demand.position);
      }
      if (may_be_dropped_outside(region, demand.tensor)) from_outside.push_back(demand);
    }
    for (std::int32_t position = region.end; position-- > region.begin;) {
      const Op& op = op_at(position);
      if (!makes_any(op, [&](TensorId made) { return needed_.contains(made); })) continue;
      rule.ops.push_back(plan_.order[static_cast<std::size_t>(position)]);
      for (const TensorId input : op.inputs) {
        if (drops(region, input)) needed_.insert(input);
        if (may_be_dropped_outside(region, input)) from_outside.push_back({input, rule.trigger});
      }
    }
    std::reverse(rule.ops.begin(), rule.ops.end());
    leave_the_latest(from_outside);
    return from_outside;
  }

  // Adds what the region's ops in [region.begin, end) make again.
  void run_until(const Region& region, std::int32_t end, bool also_kept, RegionRule& rule) const {
    for (std::int32_t position = region.begin; position < end; ++position) {
      const Op& op = op_at(position);
      const bool all_kept = !makes_any(op, [&](TensorId made) { return !kept_[index(made)]; });
      if (op.recompute == RecomputePolicy::kNever || (all_kept && !also_kept)) continue;
      rule.ops.push_back(plan_.order[static_cast<std::size_t>(position)]);
    }
  }

  // Section 5, `prefix`: up to the last save event, at the first Backward with a saved tensor.
  // Torch holds what an outermost region was passed until all in it that saves something is done,
  // what a nested one was passed until it is recomputed. Returns the last Backward that saves.
  std::int32_t apply_prefix(const Region& region, const std::vector<Added>& inner, bool is_nested,
                            RegionRule& rule) {
    std::int32_t end = region.begin;
    std::int32_t last_saving = kNoPosition;
    const auto saves_at = [&](std::int32_t position) {
      if (position == kNoPosition) return;
      last_saving = last_saving == kNoPosition ? position : std::min(last_saving, position);
    };
    for (const std::int32_t position : own_positions(region)) {
      const Op& op = op_at(position);
      if (!op.saved.empty()) {
        saves_at(position);
        rule.trigger = std::max(rule.trigger, position);
      }
      if (op.saved.empty() && op.unread_saved.empty()) continue;
      // A saved input: before the op runs. A saved output: after it, as all of a custom Function.
      const bool saves_made = makes_any(op, [&](TensorId made) {
        return contains(op.saved, made) || contains(op.unread_saved, made);
      });
      end = std::max(end, saves_made || op.saves_after_forward ? position + 1 : position);
    }
    for (std::size_t i = 0; i < inner.size(); ++i) {
      rule.trigger = std::max(rule.trigger, inner[i].trigger);
      saves_at(inner[i].last_saving);
      if (inner[i].has_inputs) end = std::max(end, region.inner[i].begin);
    }
    rule.inputs = inputs_of(region);
    if (rule.trigger != kNoPosition) run_until(region, end, /*also_kept=*/false, rule);
    rule.stop = end;
    rule.kept = region.keep;
    if (is_nested) {
      rule.lets_go_behind_recompute = rule.trigger != kNoPosition;
    } else {
      rule.held_until = last_saving;
    }
    return last_saving;
  }

  // Section 5, `whole`: every op, at the first of the region's Backwards to run.
  void apply_whole(const Region& region, RegionRule& rule) {
    for (std::int32_t position = region.begin; position < region.end; ++position) {
      if (!op_at(position).has_backward) continue;
      if (rule.held_until == kNoPosition) rule.held_until = position;
      rule.trigger = position;
    }
    rule.inputs = inputs_of(region);
    if (rule.trigger != kNoPosition) run_until(region, region.end, /*also_kept=*/true, rule);
  }

  const Graph& graph_;
  const Plan& plan_;
  std::vector<bool> kept_;
  std::vector<std::int32_t> made_at_;     // by tensor: position of the op that makes it
  std::vector<std::int32_t> dropped_at_;  // the same; kNoPosition if no region may drop it
  TensorSet needed_;                      // by the frame in work
  TensorSet listed_;                      // among the inputs in work
  std::vector<RegionRule> rules_ = {};
};

}  // namespace

std::vector<std::int32_t> positions_of_makers(const Graph& graph, const Plan& plan) {
  std::vector<std::int32_t> of_ops(graph.ops.size(), kNoPosition);
  for (std::size_t i = 0; i < plan.order.size(); ++i) {
    of_ops[index(plan.order[i])] = static_cast<std::int32_t>(i);
  }
  std::vector<std::int32_t> of_makers;
  of_makers.reserve(graph.tensors.size());
  for (const Tensor& tensor : graph.tensors) {
    of_makers.push_back(tensor.producer == kNoOp ? kNoPosition : of_ops[index(tensor.producer)]);
  }
  return of_makers;
}

std::vector<bool> kept_tensors(const Graph& graph, const Plan& plan) {
  std::vector<bool> kept(graph.tensors.size(), false);
  for (const Region& region : plan.regions) {
    for (const TensorId tensor : region.keep) kept[index(tensor)] = true;
  }
  return kept;
}

std::vector<RegionRule> derive_region_rules(const Graph& graph, const Plan& plan) {
  return RuleMaker(graph, plan).make();
}

}  // namespace cairn
