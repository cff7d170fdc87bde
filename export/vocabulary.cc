#include "export/vocabulary.h"

#include <algorithm>
#include <optional>

#include "export/kept_kernels.h"
#include "export/module_runs.h"
#include "graph/error.h"
#include "graph/ops/op_kind.h"
#include "planner/blocks.h"

namespace cairn {
namespace {

bool is_fused_attention(const Op& op) { return op.kind != nullptr && op.kind->name == "attention"; }

std::vector<TensorId> attention_results(const Graph& graph, std::int32_t begin, std::int32_t end) {
  std::vector<TensorId> results;
  for (std::int32_t i = begin; i < end; ++i) {
    if (!is_fused_attention(graph.ops[static_cast<std::size_t>(i)])) continue;
    const std::vector<TensorId> made = read_results(graph, static_cast<OpId>(i));
    results.insert(results.end(), made.begin(), made.end());
  }
  return results;
}

LayerPlan empty_plan(const Graph& graph, std::string name, Extent extent) {
  Plan plan = keep_all_plan(graph);
  plan.algorithm = std::move(name);
  plan.extent = extent;
  return layer_plan(graph, plan);
}

bool is_same(std::vector<TensorId> a, std::vector<TensorId> b) {
  std::sort(a.begin(), a.end());
  std::sort(b.begin(), b.end());
  return a == b;
}

// All layers, each with what its attention makes.
bool keeps_attention(const Graph& graph, const LayerPlan& plan) {
  std::vector<bool> is_there(plan.layers.size(), false);
  for (const LayerRegion& region : plan.regions) {
    if (region.first_layer < 0 || region.end_layer != region.first_layer + 1) return false;
    if (!region.inner.empty()) return false;
    const std::vector<TensorId> made = attention_results(graph, region.begin, region.end);
    if (made.empty() || !is_same(made, region.keep)) return false;
    is_there[static_cast<std::size_t>(region.first_layer)] = true;
  }
  for (std::size_t i = 0; i < is_there.size(); ++i) {
    if (plan.layers[i].has_backward && !is_there[i]) return false;
  }
  return true;
}

bool is_core_attention(const Graph& graph, const LayerPlan& plan) {
  const LayerPlan core = core_attention_plan(graph, plan.extent);
  if (core.regions.empty() || core.regions.size() != plan.regions.size()) return false;
  return std::equal(core.regions.begin(), core.regions.end(), plan.regions.begin(),
                    [](const LayerRegion& a, const LayerRegion& b) {
                      return a.begin == b.begin && a.end == b.end && b.keep.empty() &&
                             b.inner.empty();
                    });
}

bool can_say_region(const Vocabulary& vocabulary, const Graph& graph, const LayerRegion& region) {
  if (region.first_layer < 0 && !vocabulary.module_runs) return false;
  if (region.end_layer - region.first_layer > 1 && !vocabulary.any_runs) return false;
  if (vocabulary.needs_modules && region.modules.empty()) return false;
  if (!region.keep.empty()) {
    if (!vocabulary.keep_lists || !region.inner.empty()) return false;
    if (!kept_kernels(graph, region.keep)) return false;
  }
  if (!region.inner.empty() && !vocabulary.nested) return false;
  return std::all_of(region.inner.begin(), region.inner.end(), [&](const LayerRegion& inner) {
    return can_say_region(vocabulary, graph, inner);
  });
}

// Few words: one number and what it means.
bool can_say_in_words(const Vocabulary& vocabulary, const Graph& graph, const LayerPlan& plan) {
  if (plan.regions.empty()) return vocabulary.nothing;
  const PlanForm form = plan_form(plan);
  if (vocabulary.all_layers && form.kind == PlanKind::kAll) return true;
  if (every_kth(plan, vocabulary.every_kth)) return true;
  if (vocabulary.first_layers && first_layers(plan)) return true;
  if (vocabulary.equal_runs) {
    const auto step = equal_runs(plan);
    const auto count = static_cast<std::int64_t>(plan.layers.size());
    if (step && (!vocabulary.equal_runs_divide || count % *step == 0)) return true;
  }
  if (vocabulary.keep_attention && keeps_attention(graph, plan)) return true;
  return vocabulary.core_attention && is_core_attention(graph, plan);
}

bool has_module_paths(const LayerPlan& plan) {
  return std::all_of(plan.layers.begin(), plan.layers.end(),
                     [](const ModelLayer& layer) { return layer.is_module; });
}

bool is_one_list(const LayerPlan& plan) {
  for (std::size_t i = 0; i < plan.layers.size(); ++i) {
    const ModelLayer& layer = plan.layers[i];
    if (layer.list.empty() || layer.list != plan.layers.front().list) return false;
    if (layer.number != static_cast<std::int64_t>(i)) return false;
  }
  return true;
}

// The region in pieces that can be said, each as large as may be.
class Pieces {
 public:
  Pieces(const Vocabulary& vocabulary, const Graph& graph, const LayerPlan& plan)
      : vocabulary_(vocabulary), graph_(graph), plan_(plan), modules_(graph, plan.layers) {}

  std::vector<LayerRegion> of(const LayerRegion& region, bool is_outermost) const {
    if (is_whole(region)) {
      LayerRegion whole = region;
      whole.keep = vocabulary_.keep_lists && is_outermost && region.inner.empty()
                       ? keepable(graph_, region.keep)
                       : std::vector<TensorId>{};
      whole.inner.clear();
      if (vocabulary_.nested) {
        for (const LayerRegion& inner : region.inner) append(of(inner, false), whole.inner);
      }
      return {std::move(whole)};
    }
    return split(region, is_outermost);
  }

 private:
  static void append(std::vector<LayerRegion> more, std::vector<LayerRegion>& regions) {
    regions.insert(regions.end(), more.begin(), more.end());
  }

  bool is_whole(const LayerRegion& region) const {
    if (vocabulary_.needs_modules && region.modules.empty()) return false;
    if (region.first_layer < 0) return vocabulary_.module_runs;
    return region.end_layer - region.first_layer == 1 || vocabulary_.any_runs;
  }

  // Runs of modules, of whole layers first, that are in the region.
  std::vector<LayerRegion> split(const LayerRegion& region, bool is_outermost) const {
    std::vector<LayerRegion> found;
    for (const ModuleRuns::Piece& piece : modules_.pieces(region.begin, region.end)) {
      if (!has_backward(graph_, piece.begin, piece.end)) continue;
      LayerRegion part{.begin = piece.begin, .end = piece.end, .modules = {piece.path}};
      for (std::size_t i = 0; i < plan_.layers.size(); ++i) {
        if (plan_.layers[i].path != piece.path) continue;
        part.first_layer = static_cast<std::int32_t>(i);
        part.end_layer = part.first_layer + 1;
      }
      if (part.first_layer < 0 && !vocabulary_.module_runs) continue;
      if (!found.empty() && joins(found.back(), part)) {
        found.back().end = part.end;
        found.back().modules.push_back(piece.path);
        continue;
      }
      found.push_back(std::move(part));
    }
    for (LayerRegion& part : found) {
      if (!vocabulary_.keep_lists || !is_outermost) continue;
      for (const TensorId kept : keepable(graph_, region.keep)) {
        const auto made_at = static_cast<std::int32_t>(index(graph_.tensor(kept).producer));
        if (made_at >= part.begin && made_at < part.end) part.keep.push_back(kept);
      }
    }
    // Where nothing saves but the input, which is kept in its stead, there is nothing to gain.
    std::erase_if(found, [&](const LayerRegion& part) { return saves_only_inputs(part); });
    return found;
  }

  bool joins(const LayerRegion& a, const LayerRegion& b) const {
    return vocabulary_.module_runs && a.first_layer < 0 && b.first_layer < 0 && a.end == b.begin &&
           modules_.hands_on_one(a.begin, a.end, b.end);
  }

  bool saves_only_inputs(const LayerRegion& region) const {
    for (std::int32_t i = region.begin; i < region.end; ++i) {
      for (const TensorId saved : graph_.ops[static_cast<std::size_t>(i)].saved) {
        const OpId producer = graph_.tensor(saved).producer;
        if (producer != kNoOp && static_cast<std::int32_t>(index(producer)) >= region.begin &&
            static_cast<std::int32_t>(index(producer)) < region.end) {
          return false;
        }
      }
    }
    return true;
  }

  const Vocabulary& vocabulary_;
  const Graph& graph_;
  const LayerPlan& plan_;
  ModuleRuns modules_;
};

}  // namespace

LayerPlan core_attention_plan(const Graph& graph, Extent extent) {
  LayerPlan plan = empty_plan(graph, "core-attention", extent);
  const auto is_proper = [&](std::int32_t position) {
    const Op& op = graph.ops[static_cast<std::size_t>(position)];
    return op.forward.is_matmul &&
           std::none_of(op.inputs.begin(), op.inputs.end(), [&](TensorId input) {
             return graph.tensor(input).role == TensorRole::kParameter;
           });
  };
  for (const ModelLayer& layer : plan.layers) {
    LayerRegion region{.begin = layer.end};
    for (std::int32_t i = layer.begin; i < layer.end; ++i) {
      if (!is_proper(i)) continue;
      region.begin = std::min(region.begin, i);
      region.end = i + 1;
    }
    if (layer.has_backward && region.begin < region.end) plan.regions.push_back(region);
  }
  return plan;
}

LayerPlan keep_attention_plan(const Graph& graph, Extent extent) {
  LayerPlan plan = empty_plan(graph, "keep-attention", extent);
  for (std::size_t i = 0; i < plan.layers.size(); ++i) {
    const ModelLayer& layer = plan.layers[i];
    std::vector<TensorId> kept = attention_results(graph, layer.begin, layer.end);
    if (!layer.has_backward || kept.empty()) continue;
    const auto place = static_cast<std::int32_t>(i);
    plan.regions.push_back({.begin = layer.begin,
                            .end = layer.end,
                            .first_layer = place,
                            .end_layer = place + 1,
                            .keep = std::move(kept)});
  }
  return plan;
}

bool can_name_layers(const Vocabulary& vocabulary, const LayerPlan& plan) {
  if (vocabulary.needs_modules && !has_module_paths(plan)) return false;
  return !vocabulary.needs_one_list || is_one_list(plan);
}

bool can_say(const Vocabulary& vocabulary, const Graph& graph, const LayerPlan& plan) {
  if (vocabulary.anything) return true;
  if (!plan.is_in_graph_order) return false;
  if (!can_name_layers(vocabulary, plan)) return false;
  if (can_say_in_words(vocabulary, graph, plan)) return true;
  if (!vocabulary.any_layers) return false;
  return std::all_of(plan.regions.begin(), plan.regions.end(), [&](const LayerRegion& region) {
    return can_say_region(vocabulary, graph, region);
  });
}

LayerPlan nearest_regions(const Vocabulary& vocabulary, const Graph& graph, const LayerPlan& plan) {
  LayerPlan nearest = plan;
  nearest.regions.clear();
  const Pieces pieces(vocabulary, graph, plan);
  for (const LayerRegion& region : plan.regions) {
    for (LayerRegion& piece : pieces.of(region, true)) nearest.regions.push_back(std::move(piece));
  }
  return nearest;
}

std::vector<std::string> vocabulary_words(const Vocabulary& vocabulary) {
  if (vocabulary.anything) return {"any plan"};
  std::vector<std::string> words;
  const auto say = [&](bool can, const char* what) {
    if (can) words.emplace_back(what);
  };
  say(vocabulary.all_layers && !vocabulary.any_layers, "all layers");
  say(vocabulary.every_kth == EveryKth::kFromFirst, "every k-th from layer 0");
  say(vocabulary.every_kth == EveryKth::kFromKth, "every k-th from layer k - 1");
  say(vocabulary.first_layers, "the first n");
  say(vocabulary.any_layers, "any layers");
  say(vocabulary.equal_runs && vocabulary.equal_runs_divide, "even runs");
  say(vocabulary.equal_runs && !vocabulary.equal_runs_divide, "equal runs");
  say(vocabulary.any_runs, "runs");
  say(vocabulary.nested, "nested runs");
  say(vocabulary.module_runs, "modules");
  say(vocabulary.keep_lists, "keep lists");
  say(vocabulary.keep_attention, "attention kept");
  say(vocabulary.core_attention, "core attention");
  return words;
}

}  // namespace cairn
