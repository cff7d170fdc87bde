#pragma once

#include <string>
#include <vector>

#include "export/layer_plan.h"
#include "export/plan_forms.h"
#include "graph/graph.h"
#include "graph/plan.h"
#include "planner/evaluation.h"

// Which plans a trainer can be told to run.

namespace cairn {

struct Vocabulary {
  bool nothing = true;  // that no layer is recomputed
  bool all_layers = true;
  EveryKth every_kth = EveryKth::kNo;
  bool first_layers = false;
  bool any_layers = false;  // any set of layers, so all of the above
  // All layers in runs of k; of a trainer that would run past the last layer only where k divides
  // their number.
  bool equal_runs = false;
  bool equal_runs_divide = false;
  bool any_runs = false;        // any runs of layers, so equal ones too
  bool nested = false;          // regions in regions
  bool keep_lists = false;      // outputs of linear layers and of fused attention, in any region
  bool keep_attention = false;  // all layers, each keeping what its fused attention makes
  bool core_attention = false;  // of each layer attention proper, from scores to their use
  bool module_runs = false;     // any modules that run one behind the other
  bool anything = false;        // any plan at all, by the names of its ops
  bool needs_modules = false;   // layers have to have a module path
  bool needs_one_list = false;  // layers have to be one list, from number 0 on
};

// Whether the trainer runs just this plan.
bool can_say(const Vocabulary& vocabulary, const Graph& graph, const LayerPlan& plan);

// Whether the layers are as they have to be for any plan: modules, or one list.
bool can_name_layers(const Vocabulary& vocabulary, const LayerPlan& plan);

// The plan without what cannot be said of single regions: keep lists are cut to what can be kept,
// regions that are no run of modules fall into such runs. Not every part of it may be sayable.
LayerPlan nearest_regions(const Vocabulary& vocabulary, const Graph& graph, const LayerPlan& plan);

// Plans of the vocabulary to choose among, for a budget: those of few words (all, every k-th, the
// first n, runs of k, core attention) for all n and k, and what the planner finds among the others.
std::vector<LayerPlan> sayable_plans(const Vocabulary& vocabulary, const Graph& graph,
                                     const Setting& setting, std::int64_t budget_bytes);

// Of each layer attention proper, from its first product without weights to its last; and each
// layer whole but for what its fused attention makes. Without regions where there is no such.
LayerPlan core_attention_plan(const Graph& graph, Extent extent);
LayerPlan keep_attention_plan(const Graph& graph, Extent extent);

// "all layers", "every k-th layer (0, k, 2k, ...)", ...: for lists of targets.
std::vector<std::string> vocabulary_words(const Vocabulary& vocabulary);

}  // namespace cairn
