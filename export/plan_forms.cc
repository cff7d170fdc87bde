#include "export/plan_forms.h"

#include <algorithm>

#include "graph/error.h"

namespace cairn {
namespace {

std::int64_t layer_count(const LayerPlan& plan) {
  return static_cast<std::int64_t>(plan.layers.size());
}

// Whether `is_in(i)` says of each layer with a Backward whether it is recomputed.
template <typename IsIn>
bool are_those(const LayerPlan& plan, const std::vector<bool>& is_recomputed, const IsIn& is_in) {
  for (std::int64_t i = 0; i < layer_count(plan); ++i) {
    const auto place = static_cast<std::size_t>(i);
    if (plan.layers[place].has_backward && is_recomputed[place] != is_in(i)) return false;
  }
  return true;
}

// The layers i with i % step == first.
std::optional<PlanForm> one_in_k(const LayerPlan& plan, const std::vector<bool>& is_recomputed) {
  for (std::int64_t step = 2; step < layer_count(plan); ++step) {
    for (std::int64_t first = 0; first < step; ++first) {
      // At least two, lest any one layer is one in many.
      if (first + step >= layer_count(plan)) continue;
      if (are_those(plan, is_recomputed, [&](std::int64_t i) { return i % step == first; })) {
        return PlanForm{.kind = PlanKind::kEveryKth, .step = step, .first = first};
      }
    }
  }
  return std::nullopt;
}

template <typename Test>
bool any_region(const std::vector<LayerRegion>& regions, const Test& test) {
  return std::any_of(regions.begin(), regions.end(), [&](const LayerRegion& region) {
    return test(region) || any_region(region.inner, test);
  });
}

}  // namespace

std::optional<std::int64_t> every_kth(const LayerPlan& plan, EveryKth phase) {
  const auto is_recomputed = layers_alone(plan);
  if (!is_recomputed || phase == EveryKth::kNo) return std::nullopt;
  for (std::int64_t step = 2; step < layer_count(plan); ++step) {
    const std::int64_t first = phase == EveryKth::kFromFirst ? 0 : step - 1;
    if (are_those(plan, *is_recomputed, [&](std::int64_t i) { return i % step == first; })) {
      return step;
    }
  }
  return std::nullopt;
}

std::optional<std::int64_t> first_layers(const LayerPlan& plan) {
  const auto is_recomputed = layers_alone(plan);
  if (!is_recomputed) return std::nullopt;
  for (std::int64_t count = 0; count <= layer_count(plan); ++count) {
    if (are_those(plan, *is_recomputed, [&](std::int64_t i) { return i < count; })) return count;
  }
  return std::nullopt;
}

std::optional<std::int64_t> equal_runs(const LayerPlan& plan) {
  if (!plan.is_in_graph_order || plan.regions.empty()) return std::nullopt;
  std::int64_t step = 0;
  std::vector<std::int64_t> run_of(plan.layers.size(), -1);
  for (std::size_t r = 0; r < plan.regions.size(); ++r) {
    const LayerRegion& region = plan.regions[r];
    if (region.first_layer < 0 || !region.keep.empty() || !region.inner.empty()) {
      return std::nullopt;
    }
    step = std::max<std::int64_t>(step, region.end_layer - region.first_layer);
    std::fill(run_of.begin() + region.first_layer, run_of.begin() + region.end_layer,
              static_cast<std::int64_t>(r));
  }
  // Two layers are in one run where k says so; those without a Backward are in any.
  std::optional<std::size_t> before;
  for (std::size_t i = 0; i < run_of.size(); ++i) {
    if (!plan.layers[i].has_backward) continue;
    if (run_of[i] < 0) return std::nullopt;
    const auto run = static_cast<std::int64_t>(i) / step;
    if (before &&
        (run_of[*before] == run_of[i]) != (static_cast<std::int64_t>(*before) / step == run)) {
      return std::nullopt;
    }
    before = i;
  }
  return step;
}

PlanForm plan_form(const LayerPlan& plan) {
  if (!plan.is_in_graph_order) return {.kind = PlanKind::kOtherOrder};
  if (plan.regions.empty()) return {.kind = PlanKind::kNone};
  const auto is_part = [](const LayerRegion& region) { return region.first_layer < 0; };
  if (any_region(plan.regions, is_part)) return {.kind = PlanKind::kParts};
  const auto keeps = [](const LayerRegion& region) { return !region.keep.empty(); };
  if (any_region(plan.regions, keeps)) return {.kind = PlanKind::kKeepLists};
  const auto is_nested = [](const LayerRegion& region) { return !region.inner.empty(); };
  if (any_region(plan.regions, is_nested)) return {.kind = PlanKind::kNested};
  const auto is_recomputed = layers_alone(plan);
  if (!is_recomputed) {
    if (const auto step = equal_runs(plan)) return {.kind = PlanKind::kEqualRuns, .step = *step};
    return {.kind = PlanKind::kRuns};
  }
  if (are_those(plan, *is_recomputed, [](std::int64_t) { return true; })) {
    return {.kind = PlanKind::kAll};
  }
  if (const auto count = first_layers(plan)) return {.kind = PlanKind::kFirst, .count = *count};
  if (const auto form = one_in_k(plan, *is_recomputed)) return *form;
  return {.kind = PlanKind::kSet};
}

std::string_view plan_kind_name(PlanKind kind) {
  switch (kind) {
    case PlanKind::kNone:
      return "nothing recomputed";
    case PlanKind::kAll:
      return "all layers";
    case PlanKind::kEveryKth:
      return "every k-th layer";
    case PlanKind::kFirst:
      return "the first n layers";
    case PlanKind::kSet:
      return "a set of layers";
    case PlanKind::kEqualRuns:
      return "equal runs of layers";
    case PlanKind::kRuns:
      return "runs of layers";
    case PlanKind::kNested:
      return "nested runs of layers";
    case PlanKind::kKeepLists:
      return "keep lists";
    case PlanKind::kParts:
      return "parts of layers";
    case PlanKind::kOtherOrder:
      return "another order of ops";
  }
  CAIRN_CHECK(false, "unknown kind of plan");
}

}  // namespace cairn
