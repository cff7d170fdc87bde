#include <algorithm>
#include <utility>

#include "export/vocabulary.h"
#include "graph/error.h"
#include "planner/plan_for_budget.h"

// The plans of a vocabulary that an export chooses among.

namespace cairn {
namespace {

class Candidates {
 public:
  Candidates(const Vocabulary& vocabulary, const Graph& graph, const Setting& setting)
      : vocabulary_(vocabulary), graph_(graph), setting_(setting) {}

  std::vector<LayerPlan> plans(std::int64_t budget_bytes) {
    add_in_words();
    if (vocabulary_.any_layers) add_planned(Target::kHf, Algorithm::kAuto, budget_bytes);
    if (vocabulary_.any_runs) add_made({.algorithm = Algorithm::kSqrt});
    if (vocabulary_.nested) add_planned(Target::kTorch, Algorithm::kRevolve, budget_bytes);
    if (vocabulary_.keep_lists) add_planned(Target::kTorch, Algorithm::kSelective, budget_bytes);
    if (vocabulary_.module_runs || vocabulary_.anything) {
      add_planned(Target::kTorch, Algorithm::kAuto, budget_bytes);
    }
    return std::move(plans_);
  }

 private:
  // As it is, or as near as can be said; none where that is nothing.
  void add(const LayerPlan& plan) {
    LayerPlan nearest =
        can_say(vocabulary_, graph_, plan) ? plan : nearest_regions(vocabulary_, graph_, plan);
    if (can_say(vocabulary_, graph_, nearest)) plans_.push_back(std::move(nearest));
  }

  void add_exactly(const LayerPlan& plan) {
    if (can_say(vocabulary_, graph_, plan)) plans_.push_back(plan);
  }

  void add_made(const Strategy& strategy) {
    add_exactly(layer_plan(graph_, make_plan(graph_, strategy, setting_.extent)));
  }

  template <typename IsIn>
  void add_layers(std::string name, const IsIn& is_in) {
    LayerPlan plan = every_;
    plan.name = std::move(name);
    std::erase_if(plan.regions,
                  [&](const LayerRegion& region) { return !is_in(region.first_layer); });
    add_exactly(plan);
  }

  void add_in_words() {
    add_made({.algorithm = Algorithm::kNone});
    every_ = layer_plan(graph_,
                        make_plan(graph_, {.algorithm = Algorithm::kEveryLayer}, setting_.extent));
    add_exactly(every_);
    const auto count = static_cast<std::int64_t>(every_.layers.size());
    if (vocabulary_.first_layers || vocabulary_.any_layers) {
      for (std::int64_t n = 1; n < count; ++n) {
        add_layers("first-layers:" + std::to_string(n), [&](std::int64_t i) { return i < n; });
      }
    }
    if (vocabulary_.every_kth != EveryKth::kNo || vocabulary_.any_layers) {
      for (std::int64_t k = 2; k < count; ++k) {
        const std::int64_t first = vocabulary_.every_kth == EveryKth::kFromKth ? k - 1 : 0;
        add_layers("every-kth:" + std::to_string(k),
                   [&](std::int64_t i) { return i % k == first; });
      }
    }
    if (vocabulary_.equal_runs || vocabulary_.any_runs) {
      for (std::int64_t k = 2; k <= count; ++k) {
        add_made({.algorithm = Algorithm::kUniform, .layers_per_region = k});
      }
    }
    if (vocabulary_.keep_attention) add_exactly(keep_attention_plan(graph_, setting_.extent));
    if (vocabulary_.core_attention) add_exactly(core_attention_plan(graph_, setting_.extent));
  }

  // A graph may not allow an algorithm: then there is no such plan.
  void add_planned(Target target, Algorithm algorithm, std::int64_t budget_bytes) {
    try {
      const PlanAnswer answer = plan_for_budget(
          graph_, {.strategy = {.algorithm = algorithm}, .setting = setting_, .target = target},
          budget_bytes);
      add(layer_plan(graph_, answer.evaluation.plan));
    } catch (const InputError&) {
    }
  }

  const Vocabulary& vocabulary_;
  const Graph& graph_;
  const Setting& setting_;
  LayerPlan every_ = {};
  std::vector<LayerPlan> plans_ = {};
};

}  // namespace

std::vector<LayerPlan> sayable_plans(const Vocabulary& vocabulary, const Graph& graph,
                                     const Setting& setting, std::int64_t budget_bytes) {
  return Candidates(vocabulary, graph, setting).plans(budget_bytes);
}

}  // namespace cairn
