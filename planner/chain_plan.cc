#include "planner/chain_plan.h"

#include <fmt/format.h>

#include <algorithm>

#include "graph/error.h"

namespace cairn {
namespace {

ChainForm form_of(const PlanRequest& request) {
  const Algorithm algorithm = request.strategy.algorithm;
  switch (request.target) {
    case Target::kHf:
    case Target::kMegatron:
      return {.layers_only = true, .whole_layers = true, .keep_lists = false, .nesting = false};
    case Target::kTorchtitan:
      return {.layers_only = true, .whole_layers = true, .nesting = false};
    case Target::kAny:
    case Target::kTorch:
    case Target::kJax:
      break;
  }
  if (algorithm == Algorithm::kSelective) return {.layers_only = true, .nesting = false};
  if (algorithm == Algorithm::kChain || algorithm == Algorithm::kAuto) return {};
  return {.layers_only = true, .keep_lists = false, .nesting = false};
}

// Whether the chain's solutions are plans that the request allows, not only a bound for them.
bool offers_plans(const PlanRequest& request) {
  switch (request.strategy.algorithm) {
    case Algorithm::kSelective:
    case Algorithm::kChain:
    case Algorithm::kAuto:
      return request.target != Target::kMegatron && request.target != Target::kTorchtitan;
    default:
      return false;
  }
}

// A sixteenth more.
std::int64_t with_margin(std::int64_t budget_bytes) {
  constexpr std::int64_t kShare = 16;
  return std::min(budget_bytes + std::max<std::int64_t>(budget_bytes, 0) / kShare,
                  kMostBudgetBytes);
}

// All budgets at once cost little for few blocks, and for equal ones, which share rows of the
// solver's table.
bool is_quickly_solved(const std::vector<Block>& blocks) {
  constexpr std::int32_t kEach = 4;
  constexpr std::size_t kFew = 128;
  if (blocks.size() <= kFew) return true;
  std::int32_t kind_count = 0;
  for (const Block& block : blocks) kind_count = std::max(kind_count, block.kind + 1);
  return kind_count * kEach < static_cast<std::int32_t>(blocks.size());
}

// "attn" of "layers.3.attn": what stands behind the layer's number.
std::string_view name_in_layer(std::string_view name) {
  for (std::size_t begin = 0; begin < name.size();) {
    const std::size_t dot = std::min(name.find('.', begin), name.size());
    const std::string_view part = name.substr(begin, dot - begin);
    const bool is_number = !part.empty() && std::all_of(part.begin(), part.end(), [](char c) {
      return c >= '0' && c <= '9';
    });
    if (is_number && dot < name.size()) return name.substr(dot + 1);
    begin = dot + 1;
  }
  return name;
}

// What the block makes under one of the names.
std::vector<TensorId> tensors_named(const Graph& graph, const Block& block,
                                    const std::vector<std::string_view>& names) {
  std::vector<TensorId> found;
  for (std::int32_t i = block.begin; i < block.end; ++i) {
    const Op& op = graph.ops[static_cast<std::size_t>(i)];
    for (const auto* made : {&op.outputs, &op.auxiliaries}) {
      for (const TensorId tensor : *made) {
        const std::string_view name = name_in_layer(graph.tensor(tensor).name);
        if (std::find(names.begin(), names.end(), name) != names.end()) found.push_back(tensor);
      }
    }
  }
  return found;
}

std::vector<Region> regions_of(const ChainProblem& problem, const std::vector<ChainItem>& items) {
  std::vector<Region> regions;
  for (const ChainItem& item : items) {
    if (item.kind == ChainItem::Kind::kKept) continue;
    Region region{.begin = problem.blocks[static_cast<std::size_t>(item.begin)].begin,
                  .end = problem.blocks[static_cast<std::size_t>(item.end) - 1].end};
    if (item.kind == ChainItem::Kind::kOption) {
      region.keep = problem.chain.options[static_cast<std::size_t>(item.option)].keep;
    }
    region.inner = regions_of(problem, item.inner);
    regions.push_back(std::move(region));
  }
  return regions;
}

// A region of what is frozen would be run again by no Backward.
void leave_out_frozen(const Graph& graph, std::vector<Region>& regions) {
  std::erase_if(regions, [&](const Region& region) {
    return !has_backward(graph, region.begin, region.end);
  });
  for (Region& region : regions) leave_out_frozen(graph, region.inner);
}

}  // namespace

ChainPlans::ChainPlans(const Graph& graph, const PlanRequest& request,
                       std::optional<std::int64_t> budget)
    : graph_(graph),
      request_(request),
      problem_(chain_problem(graph, request, form_of(request))),
      keep_all_(keep_all_plan(graph)) {
  const bool is_auto = request.strategy.algorithm == Algorithm::kAuto;
  keep_all_.algorithm =
      is_auto ? strategy_name({.algorithm = Algorithm::kChain}) : strategy_name(request.strategy);
  keep_all_.extent = request.setting.extent;
  if (!offers_plans(request)) return;
  if (!budget) {
    solve_for_all_budgets();
  } else if (is_quickly_solved(problem_.blocks)) {
    solution_.emplace(solve_chain(problem_.chain, with_margin(*budget)));
  } else {
    solution_.emplace(solve_chain(problem_.chain, *budget, {.is_whole_frontier = false}));
  }
}

ChainPlans::ChainPlans(const Graph& graph, const PlanRequest& request)
    : ChainPlans(graph, request, std::nullopt) {}

ChainPlans::ChainPlans(const Graph& graph, const PlanRequest& request, std::int64_t budget_bytes)
    : ChainPlans(graph, request, std::optional(std::min(budget_bytes, kMostBudgetBytes))) {}

void ChainPlans::solve_for_all_budgets() {
  if (!offers_plans(request_)) return;
  solution_.emplace(solve_chain(problem_.chain, kMostBudgetBytes, {.has_lower_bound = false}));
}

PlanList ChainPlans::list() const {
  PlanList list;
  if (!solution_) return list;
  const ChainPoints& points = solution_->points();
  for (std::size_t i = points.size(); i-- > 0;) {
    list.expected.push_back(
        {.need_bytes = points[i].need_bytes, .extra_cost = points[i].extra_cost});
  }
  list.plan_of = [this](std::size_t i) {
    const ChainPoints& known = solution_->points();
    Plan plan = keep_all_;
    plan.regions =
        regions_of(problem_, solution_->items_of(known[known.size() - 1 - i].need_bytes));
    leave_out_frozen(graph_, plan.regions);
    return plan;
  };
  return list;
}

bool ChainPlans::made(const Plan& plan) const {
  return solution_ && (plan.algorithm == keep_all_.algorithm || plan.regions.empty());
}

std::vector<Plan> ChainPlans::same_choice_plans() const {
  std::vector<Plan> plans;
  const Algorithm algorithm = request_.strategy.algorithm;
  const bool is_asked = algorithm == Algorithm::kAuto || algorithm == Algorithm::kSelective;
  if (request_.target != Target::kTorchtitan || !is_asked) return plans;
  const std::vector<KeepOption>& options = problem_.chain.options;
  for (const KeepOption& choice : options) {
    if (choice.begin != options.front().begin) break;  // all choices of the first layer
    std::vector<std::string_view> names;
    for (const TensorId kept : choice.keep) {
      names.push_back(name_in_layer(graph_.tensor(kept).name));
    }
    Plan plan = keep_all_;
    for (std::size_t b = 0; b + 1 < problem_.blocks.size(); ++b) {
      const Block& block = problem_.blocks[b];
      if (block.layer < 0) continue;
      plan.regions.push_back(
          {.begin = block.begin, .end = block.end, .keep = tensors_named(graph_, block, names)});
    }
    plans.push_back(std::move(plan));
  }
  return plans;
}

std::string ChainPlans::optimal_for(std::int64_t budget_bytes, std::int64_t extra_cost) const {
  if (!solution_) return "";
  std::string text = class_of_plans();
  if (text.empty()) return text;
  if (solution_->statistics().is_exact || problem_.costs.step == 0) return text;
  const std::int64_t gap = extra_cost - solution_->lower_bound(budget_bytes);
  if (gap <= 0) return text;
  constexpr double kPercent = 100;
  const double share = static_cast<double>(gap) / static_cast<double>(problem_.costs.step);
  return fmt::format("{}, to within {:.2g} % of a step", text, share * kPercent);
}

std::string ChainPlans::class_of_plans() const {
  const std::size_t count = problem_.blocks.size();
  const std::string_view lists = problem_.has_all_lists ? "keep lists" : "the keep lists offered";
  if (request_.target == Target::kHf) {
    return problem_.has_all_layers ? "sets of whole layers" : "";
  }
  if (request_.strategy.algorithm == Algorithm::kSelective) {
    return fmt::format("{} of single layers", lists);
  }
  return fmt::format("nested regions of {} blocks, and {} of single blocks and layers", count,
                     lists);
}

}  // namespace cairn
