#include "sim/validator_order.h"

#include <algorithm>
#include <utility>

namespace cairn {
namespace {

bool contains(const std::vector<TensorId>& tensors, TensorId tensor) {
  return std::find(tensors.begin(), tensors.end(), tensor) != tensors.end();
}

std::vector<TensorId> made_by(const Op& op) {
  std::vector<TensorId> made = op.outputs;
  made.insert(made.end(), op.auxiliaries.begin(), op.auxiliaries.end());
  return made;
}

// A tensor that must be live when the Backward at `position` (or a recompute directly before it)
// runs.
struct Demand {
  TensorId tensor = kNoTensor;
  std::int32_t position = 0;
};

// Derives the rules of a region from those of the regions inside it.
class RuleMaker {
 public:
  RuleMaker(const Graph& graph, const Plan& plan)
      : graph_(graph),
        plan_(plan),
        position_(positions_of_ops(graph, plan)),
        kept_(kept_tensors(graph, plan)) {}

  std::vector<RegionRule> make() {
    for (const Region& region : plan_.regions) add(region);
    return std::move(rules_);
  }

 private:
  const Op& op_at(std::int32_t position) const {
    return graph_.op(plan_.order[static_cast<std::size_t>(position)]);
  }

  bool makes(const Region& region, TensorId tensor) const {
    const OpId producer = graph_.tensor(tensor).producer;
    if (producer == kNoOp) return false;
    const std::int32_t position = position_[index(producer)];
    return region.begin <= position && position < region.end;
  }

  // Made in the region and dropped by it: neither kept nor made by an op that may not run again.
  bool drops(const Region& region, TensorId tensor) const {
    return makes(region, tensor) && !kept_[index(tensor)] &&
           graph_.op(graph_.tensor(tensor).producer).recompute != RecomputePolicy::kNever;
  }

  // Positions of the region's own ops: those in no inner region.
  std::vector<std::int32_t> own_positions(const Region& region) const {
    std::vector<std::int32_t> own;
    for (std::int32_t position = region.begin; position < region.end; ++position) {
      const bool is_inner = std::any_of(
          region.inner.begin(), region.inner.end(),
          [&](const Region& inner) { return inner.begin <= position && position < inner.end; });
      if (!is_inner) own.push_back(position);
    }
    return own;
  }

  // Everything that ops anywhere in the region read from outside it.
  std::vector<TensorId> inputs_of(const Region& region) const {
    std::vector<TensorId> inputs;
    for (std::int32_t position = region.begin; position < region.end; ++position) {
      for (const TensorId input : op_at(position).inputs) {
        if (!makes(region, input) && !contains(inputs, input)) inputs.push_back(input);
      }
    }
    return inputs;
  }

  struct Added {
    std::int32_t trigger = kNoPosition;
    std::vector<Demand> from_outside = {};
  };

  Added add(const Region& region) {
    const std::size_t own = rules_.size();
    rules_.push_back({.begin = region.begin, .end = region.end});
    std::vector<Added> inner;
    for (const Region& each : region.inner) inner.push_back(add(each));
    RegionRule rule = rules_[own];
    Added added;
    switch (plan_.extent) {
      case Extent::kNeeded:
        added = apply_needed(region, inner, rule);
        break;
      case Extent::kPrefix:
        apply_prefix(region, inner, rule);
        break;
      case Extent::kWhole:
        apply_whole(region, rule);
        break;
    }
    added.trigger = rule.trigger;
    rules_[own] = std::move(rule);
    return added;
  }

  // Rules 18 and 19.
  Added apply_needed(const Region& region, const std::vector<Added>& inner,
                     RegionRule& rule) const {
    // What the frame holds, rule 14: its own ops' saved tensors, and what inner regions read from
    // outside themselves. Those inputs must be there when the inner region is recomputed.
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
    Added added;
    std::vector<bool> needed(graph_.tensors.size(), false);
    for (const Demand& demand : demands) {
      if (drops(region, demand.tensor)) {
        needed[index(demand.tensor)] = true;
        rule.trigger = std::max(rule.trigger, demand.position);
      }
      if (!makes(region, demand.tensor)) added.from_outside.push_back(demand);
    }
    for (std::int32_t position = region.end; position-- > region.begin;) {
      const std::vector<TensorId> made = made_by(op_at(position));
      if (std::none_of(made.begin(), made.end(),
                       [&](TensorId tensor) { return needed[index(tensor)]; })) {
        continue;
      }
      rule.ops.insert(rule.ops.begin(), plan_.order[static_cast<std::size_t>(position)]);
      for (const TensorId input : op_at(position).inputs) {
        if (drops(region, input)) needed[index(input)] = true;
        if (!makes(region, input)) added.from_outside.push_back({input, rule.trigger});
      }
    }
    return added;
  }

  // Adds what the region's ops in [region.begin, end) make again.
  void run_until(const Region& region, std::int32_t end, bool also_kept, RegionRule& rule) const {
    for (std::int32_t position = region.begin; position < end; ++position) {
      const Op& op = op_at(position);
      const std::vector<TensorId> made = made_by(op);
      const bool all_kept = std::all_of(made.begin(), made.end(),
                                        [&](TensorId tensor) { return kept_[index(tensor)]; });
      if (op.recompute == RecomputePolicy::kNever || (all_kept && !also_kept)) continue;
      rule.ops.push_back(plan_.order[static_cast<std::size_t>(position)]);
    }
  }

  // Section 5, `prefix`: up to the last save event, at the first Backward with a saved tensor.
  void apply_prefix(const Region& region, const std::vector<Added>& inner, RegionRule& rule) const {
    std::int32_t end = region.begin;
    for (const std::int32_t position : own_positions(region)) {
      const Op& op = op_at(position);
      if (!op.has_backward || op.saved.empty()) continue;
      if (rule.held_until == kNoPosition) rule.held_until = position;
      rule.trigger = std::max(rule.trigger, position);
      end = std::max(end, position);  // a saved input: before the op runs
      for (const TensorId made : made_by(op)) {
        if (contains(op.saved, made)) end = std::max(end, position + 1);
      }
    }
    for (std::size_t i = 0; i < inner.size(); ++i) {
      rule.trigger = std::max(rule.trigger, inner[i].trigger);
      if (!inputs_of(region.inner[i]).empty()) end = std::max(end, region.inner[i].begin);
    }
    rule.inputs = inputs_of(region);
    if (rule.trigger != kNoPosition) run_until(region, end, /*also_kept=*/false, rule);
  }

  // Section 5, `whole`: every op, at the first of the region's Backwards to run.
  void apply_whole(const Region& region, RegionRule& rule) const {
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
  std::vector<std::int32_t> position_;
  std::vector<bool> kept_;
  std::vector<RegionRule> rules_ = {};
};

}  // namespace

std::vector<std::int32_t> positions_of_ops(const Graph& graph, const Plan& plan) {
  std::vector<std::int32_t> positions(graph.ops.size(), kNoPosition);
  for (std::size_t i = 0; i < plan.order.size(); ++i) {
    positions[index(plan.order[i])] = static_cast<std::int32_t>(i);
  }
  return positions;
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
