#include "export/export_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "export/forward_runs.h"
#include "export/traps.h"
#include "graph/error.h"
#include "planner/budget_search.h"
#include "planner/plan_for_budget.h"

namespace cairn {
namespace {

class Exporting {
 public:
  Exporting(const Graph& graph, const ExportTarget& target, ExportRequest request)
      : graph_(graph), target_(target) {
    answer_.target = &target;
    answer_.graph = &graph;
    answer_.request = std::move(request);
  }

  ExportAnswer answer() {
    check_library();
    price_chosen();
    if (answer_.request.is_best) {
      find_best();
    } else if (can_say(target_.vocabulary, graph_, answer_.chosen.layers)) {
      LayerPlan same = answer_.chosen.layers;
      if (target_.vocabulary.anything) {  // whatever the order
        take(evaluate_plan(graph_, answer_.request.plan, setting(same.extent)), std::move(same));
      } else {
        same.extent = target_.extent;
        take(std::move(same));
      }
      answer_.verdict = ExportVerdict::kExact;
    } else {
      approximate();
    }
    finish();
    return std::move(answer_);
  }

 private:
  // Of a graph that a family made; of others nothing is known.
  void check_library() const {
    const std::string& library = answer_.request.library;
    if (target_.library.empty() || library.empty() || library == target_.library) return;
    throw InputError(
        fmt::format("{}: expected a model as library '{}' runs it, found {} as '{}' runs it",
                    target_.name, target_.library, answer_.request.model, library));
  }

  Setting setting(Extent extent) const {
    Setting setting = answer_.request.setting;
    setting.extent = extent;
    return setting;
  }

  PricedPlan priced(LayerPlan layers, Evaluation evaluation) const {
    PricedPlan plan{.layers = std::move(layers), .evaluation = std::move(evaluation)};
    plan.slowdown = slowdown(plan.evaluation, keep_all_, keep_all_.step_flops);
    return plan;
  }

  void price_chosen() {
    const Plan& plan = answer_.request.plan;
    keep_all_ = evaluate(graph_, {}, setting(target_.extent));
    answer_.is_in_time = keep_all_.time.has_value();
    answer_.keep_all_peak_bytes = keep_all_.trace.peak_bytes;
    answer_.chosen =
        priced(layer_plan(graph_, plan), evaluate_plan(graph_, plan, setting(plan.extent)));
    answer_.limit_bytes =
        answer_.request.budget_bytes.value_or(answer_.chosen.evaluation.trace.peak_bytes);
  }

  void take(Evaluation evaluation, LayerPlan layers) {
    answer_.exported = priced(std::move(layers), std::move(evaluation));
  }

  void take(LayerPlan layers) {
    Evaluation evaluation = evaluate_plan(graph_, plan_of(graph_, layers), setting(layers.extent));
    take(std::move(evaluation), std::move(layers));
  }

  bool fits() const { return answer_.exported.evaluation.trace.peak_bytes <= answer_.limit_bytes; }

  // The cheapest within the limit, of equal ones that of the lower peak; else that of the least
  // peak.
  void take_cheapest(std::vector<LayerPlan> layer_plans) {
    CAIRN_CHECK(!layer_plans.empty(), "no plan to choose among");
    const OpCosts costs = op_costs(graph_, answer_.request.setting.device);
    const Setting with_extent = setting(target_.extent);
    PlanTrials trials(graph_, with_extent, costs);
    std::vector<Plan> plans;
    for (LayerPlan& layers : layer_plans) {
      layers.extent = target_.extent;
      plans.push_back(plan_of(graph_, layers));
    }
    const std::vector<TriedPlan> tried = trials.try_plans(std::move(plans));
    std::size_t best = 0;
    const auto is_better = [&](const TriedPlan& a, const TriedPlan& b) {
      const bool a_fits = a.peak_bytes <= answer_.limit_bytes;
      const bool b_fits = b.peak_bytes <= answer_.limit_bytes;
      if (a_fits != b_fits) return a_fits;
      if (!a_fits) return a.peak_bytes < b.peak_bytes;
      return a.extra_cost != b.extra_cost ? a.extra_cost < b.extra_cost
                                          : a.peak_bytes < b.peak_bytes;
    };
    for (std::size_t i = 1; i < tried.size(); ++i) {
      if (is_better(tried[i], tried[best])) best = i;
    }
    take(std::move(layer_plans[best]));
  }

  std::vector<LayerPlan> sayable() const {
    std::vector<LayerPlan> plans =
        sayable_plans(target_.vocabulary, graph_, setting(target_.extent), answer_.limit_bytes);
    if (plans.empty()) {
      throw InputError(fmt::format(
          "{}: expected a model whose layers are {}, found none in {}", target_.name,
          target_.vocabulary.needs_one_list ? "one list, from number 0 on" : "modules with a path",
          graph_.name.empty() ? answer_.request.model : graph_.name));
    }
    return plans;
  }

  void find_best() {
    take_cheapest(sayable());
    const PlanAnswer free = plan_for_budget(
        graph_, {.setting = setting(target_.extent), .target = Target::kAny}, answer_.limit_bytes);
    answer_.freest = priced(layer_plan(graph_, free.evaluation.plan), free.evaluation);
    answer_.verdict = fits() ? ExportVerdict::kExact : ExportVerdict::kRefused;
    if (!fits()) answer_.reason = "no plan that it can be told is within the budget";
  }

  void approximate() {
    std::vector<LayerPlan> plans = sayable();
    LayerPlan nearest = nearest_regions(target_.vocabulary, graph_, answer_.chosen.layers);
    if (can_say(target_.vocabulary, graph_, nearest)) plans.push_back(std::move(nearest));
    take_cheapest(std::move(plans));
    const std::string can = join_names(vocabulary_words(target_.vocabulary));
    answer_.reason = fmt::format("the plan is {}; {} can be told: {}",
                                 layer_plan_words(answer_.chosen.layers), target_.name, can);
    answer_.verdict = fits() ? ExportVerdict::kApproximated : ExportVerdict::kRefused;
  }

  void finish() {
    count_forward_runs(answer_);
    answer_.traps = export_traps(answer_);
    if (answer_.verdict != ExportVerdict::kRefused) answer_.text = target_.write(answer_);
  }

  const Graph& graph_;
  const ExportTarget& target_;
  Evaluation keep_all_ = {};
  ExportAnswer answer_ = {};
};

}  // namespace

std::string_view export_verdict_name(ExportVerdict verdict) {
  switch (verdict) {
    case ExportVerdict::kExact:
      return "exact";
    case ExportVerdict::kApproximated:
      return "approximated";
    case ExportVerdict::kRefused:
      return "refused";
  }
  CAIRN_CHECK(false, "unknown verdict");
}

ExportAnswer export_plan(const Graph& graph, const ExportTarget& target, ExportRequest request) {
  return Exporting(graph, target, std::move(request)).answer();
}

}  // namespace cairn
