#include "export/layer_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <string_view>

#include "export/module_runs.h"
#include "export/plan_forms.h"
#include "planner/blocks.h"
#include "planner/planner.h"

namespace cairn {
namespace {

constexpr std::size_t kMostRanges = 8;

// What all of these have in common, up to the end of a part: "model.layers.3".
std::string common_path(const std::vector<std::string_view>& paths) {
  if (paths.empty()) return {};
  std::string common = std::string(paths[0]) + ".";
  for (const std::string_view path : paths) {
    const std::string whole = std::string(path) + ".";
    std::size_t length = 0;
    while (length < std::min(common.size(), whole.size()) && common[length] == whole[length]) {
      ++length;
    }
    common.resize(length);
    common.resize(common.rfind('.') == std::string::npos ? 0 : common.rfind('.') + 1);
  }
  if (!common.empty()) common.pop_back();
  return common;
}

// The path up to its last part that is a number: "layers.3.attn" gives "layers.3".
bool cut_at_number(ModelLayer& layer) {
  while (!layer.path.empty()) {
    const std::size_t dot = layer.path.rfind('.');
    if (dot == std::string::npos) return false;
    const char* const end = layer.path.data() + layer.path.size();
    const auto [stop, error] = std::from_chars(layer.path.data() + dot + 1, end, layer.number);
    if (error == std::errc() && stop == end) {
      layer.list = layer.path.substr(0, dot);
      return true;
    }
    layer.path.resize(dot);
  }
  return false;
}

ModelLayer layer_at(const Graph& graph, std::int32_t begin, std::int32_t end) {
  std::vector<std::string_view> modules;
  std::vector<std::string_view> names;
  for (std::int32_t i = begin; i < end; ++i) {
    const Op& op = graph.ops[static_cast<std::size_t>(i)];
    if (!op.module.empty()) modules.emplace_back(op.module);
    names.emplace_back(op.name);
  }
  ModelLayer layer{.path = common_path(modules),
                   .is_module = true,
                   .begin = begin,
                   .end = end,
                   .has_backward = has_backward(graph, begin, end)};
  if (cut_at_number(layer)) return layer;
  layer.is_module = false;
  layer.path = common_path(names);
  if (!cut_at_number(layer)) layer.path = std::string(names.front());
  return layer;
}

bool has_backward_at(const Graph& graph, std::int32_t position) {
  return graph.ops[static_cast<std::size_t>(position)].has_backward;
}

// Positions of the first op with a Backward and behind the last; equal where there is none.
std::pair<std::int32_t, std::int32_t> backward_span(const Graph& graph, std::int32_t begin,
                                                    std::int32_t end) {
  while (begin < end && !has_backward_at(graph, begin)) ++begin;
  while (begin < end && !has_backward_at(graph, end - 1)) --end;
  return {begin, end};
}

class Placing {
 public:
  Placing(const Graph& graph, const std::vector<ModelLayer>& layers)
      : graph_(graph), layers_(layers), modules_(graph, layers) {}

  LayerRegion placed(const Region& region) const {
    LayerRegion found{.begin = region.begin, .end = region.end, .keep = region.keep};
    stretch_to_layers(found);
    for (const Region& inner : region.inner) {
      if (!has_backward(graph_, inner.begin, inner.end)) continue;
      found.inner.push_back(placed(inner));
    }
    if (found.first_layer < 0) {
      found.modules = modules_.run(found.begin, found.end);
    } else {
      found.modules = modules_.layer_run(found.first_layer, found.end_layer);
    }
    return found;
  }

 private:
  void stretch_to_layers(LayerRegion& region) const {
    const auto span = backward_span(graph_, region.begin, region.end);
    std::int32_t first = -1;
    std::int32_t last = -1;
    for (std::size_t i = 0; i < layers_.size(); ++i) {
      if (!layers_[i].has_backward) continue;
      const auto of_layer = backward_span(graph_, layers_[i].begin, layers_[i].end);
      if (of_layer.first == span.first) first = static_cast<std::int32_t>(i);
      if (of_layer.second == span.second) last = static_cast<std::int32_t>(i);
    }
    if (first < 0 || last < first || has_ops_between(first, last)) return;
    const std::int32_t begin = layers_[static_cast<std::size_t>(first)].begin;
    const std::int32_t end = layers_[static_cast<std::size_t>(last)].end;
    const bool makes_all_kept =
        std::all_of(region.keep.begin(), region.keep.end(), [&](TensorId kept) {
          const auto producer = static_cast<std::int32_t>(index(graph_.tensor(kept).producer));
          return producer >= begin && producer < end;
        });
    if (!makes_all_kept) return;
    region.begin = begin;
    region.end = end;
    region.first_layer = first;
    region.end_layer = last + 1;
  }

  // Ops with a Backward that are of no layer.
  bool has_ops_between(std::int32_t first, std::int32_t last) const {
    for (std::int32_t i = first; i < last; ++i) {
      if (has_backward(graph_, layers_[static_cast<std::size_t>(i)].end,
                       layers_[static_cast<std::size_t>(i) + 1].begin)) {
        return true;
      }
    }
    return false;
  }

  const Graph& graph_;
  const std::vector<ModelLayer>& layers_;
  ModuleRuns modules_;
};

Region region_of(const LayerRegion& region) {
  Region found{.begin = region.begin, .end = region.end, .keep = region.keep};
  for (const LayerRegion& inner : region.inner) found.inner.push_back(region_of(inner));
  return found;
}

}  // namespace

std::vector<ModelLayer> model_layers(const Graph& graph) {
  std::vector<ModelLayer> layers;
  for (const auto& [begin, end] : layer_ranges(graph)) {
    layers.push_back(layer_at(graph, begin, end));
  }
  return layers;
}

LayerPlan layer_plan(const Graph& graph, const Plan& plan) {
  LayerPlan found{.name = plan.algorithm, .extent = plan.extent, .layers = model_layers(graph)};
  found.is_in_graph_order = plan.order == keep_all_plan(graph).order;
  if (!found.is_in_graph_order) return found;
  const Placing placing(graph, found.layers);
  for (const Region& region : plan.regions) {
    if (!has_backward(graph, region.begin, region.end)) continue;
    found.regions.push_back(placing.placed(region));
  }
  return found;
}

Plan plan_of(const Graph& graph, const LayerPlan& layers) {
  Plan plan = keep_all_plan(graph);
  plan.algorithm = layers.name;
  plan.extent = layers.extent;
  for (const LayerRegion& region : layers.regions) plan.regions.push_back(region_of(region));
  return plan;
}

std::optional<std::vector<bool>> layers_alone(const LayerPlan& plan) {
  if (!plan.is_in_graph_order) return std::nullopt;
  std::vector<bool> is_recomputed(plan.layers.size(), false);
  for (const LayerRegion& region : plan.regions) {
    const bool is_one = region.first_layer >= 0 && region.end_layer == region.first_layer + 1;
    if (!is_one || !region.keep.empty() || !region.inner.empty()) return std::nullopt;
    is_recomputed[static_cast<std::size_t>(region.first_layer)] = true;
  }
  return is_recomputed;
}

std::string ranges_text(const std::vector<std::int64_t>& numbers) {
  std::vector<std::string> ranges;
  for (std::size_t i = 0; i < numbers.size();) {
    const std::int64_t first = numbers[i];
    std::int64_t last = first;
    while (++i < numbers.size() && numbers[i] == last + 1) ++last;
    ranges.push_back(first == last ? std::to_string(first) : fmt::format("{}-{}", first, last));
  }
  std::string text;
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    if (ranges.size() > kMostRanges && i == kMostRanges - 1) {
      return text + fmt::format(", ..., {} ({} in all)", ranges.back(), numbers.size());
    }
    text += (i == 0 ? "" : ", ") + ranges[i];
  }
  return text;
}

std::string layer_plan_words(const LayerPlan& plan) {
  const PlanForm form = plan_form(plan);
  const std::size_t count = plan.layers.size();
  switch (form.kind) {
    case PlanKind::kNone:
      return "everything kept";
    case PlanKind::kAll:
      return fmt::format("all {} layers", count);
    case PlanKind::kEveryKth:
      return fmt::format("one in {} of {} layers, from layer {}", form.step, count, form.first);
    case PlanKind::kFirst:
      return fmt::format("the first {} of {} layers", form.count, count);
    case PlanKind::kSet: {
      std::vector<std::int64_t> numbers;
      const std::vector<bool> is_recomputed = *layers_alone(plan);
      for (std::size_t i = 0; i < count; ++i) {
        if (is_recomputed[i]) numbers.push_back(static_cast<std::int64_t>(i));
      }
      return fmt::format("layers {} of {}", ranges_text(numbers), count);
    }
    case PlanKind::kEqualRuns:
      return fmt::format("all {} layers, {} at a time", count, form.step);
    case PlanKind::kRuns:
      return fmt::format("{} runs of layers", plan.regions.size());
    case PlanKind::kNested:
      return fmt::format("{} runs of layers, with regions inside", plan.regions.size());
    case PlanKind::kKeepLists:
      if (plan.regions.size() == count) return fmt::format("all {} layers, with keep lists", count);
      return fmt::format("{} regions with keep lists", plan.regions.size());
    case PlanKind::kParts:
      return fmt::format("{} regions, some of them parts of layers", plan.regions.size());
    case PlanKind::kOtherOrder:
      return "ops in another order than the model's";
  }
  return {};
}

}  // namespace cairn
