#include <fmt/format.h>

#include <algorithm>

#include "cli/costs_option.h"
#include "cli/header.h"
#include "cli/peak.h"
#include "cli/plan_report.h"
#include "cli/plan_words.h"
#include "cli/step_names.h"
#include "cli/table.h"
#include "cli/text.h"
#include "cli/units.h"
#include "graph/error.h"

// `cairn plan` for people: the verdict, the plan in words, what it costs, how good it is.

namespace cairn {
namespace {

constexpr std::size_t kMostPlanLines = 20;
constexpr std::size_t kLargestGroups = 8;

std::string budget_line(const PlanReport& report) {
  const BudgetRequest& budget = *report.budget;
  std::string text = bytes_text(report.budget_bytes);
  switch (budget.kind) {
    case BudgetKind::kBytes:
      if (report.budget_bytes >= 1024) {
        text += fmt::format(" ({} bytes)", grouped_text(report.budget_bytes));
      }
      break;
    case BudgetKind::kPercent:
      text += fmt::format(": {} of the {} that keeping everything peaks at", budget.text,
                          bytes_text(report.keep_all_peak_bytes));
      break;
    case BudgetKind::kGpu:
      if (report.gpu && report.gpu->id == budget.gpu->id) return {};  // the GPU's line says it
      text += fmt::format(": what {} leaves for tensors", budget.gpu->id);
      break;
  }
  return labelled_text("budget     ", text);
}

std::string target_line(const PlanReport& report) {
  switch (report.target) {
    case Target::kAny:
      return {};
    case Target::kTorch:
      return labelled_text("for        ",
                           "torch: regions of torch.utils.checkpoint, nested, with keep lists");
    case Target::kHf:
      return labelled_text("for        ", "hf: any of Transformers' layers, each whole");
    case Target::kMegatron:
      return labelled_text("for        ",
                           "megatron: the first layers, or all of them in equal runs");
    case Target::kTorchtitan:
      return labelled_text("for        ", "torchtitan: one choice for all layers");
    case Target::kJax:
      return labelled_text("for        ", "jax: jax.checkpoint with policies, nested");
  }
  CAIRN_CHECK(false, "unknown target");
}

std::string shapes_table(const PlanReport& report) {
  const bool has_tokens = std::any_of(report.shapes.begin(), report.shapes.end(),
                                      [](const PlannedShape& shape) { return shape.tokens > 0; });
  Table table{.columns = {{"batch", Align::kRight}}};
  if (has_tokens) table.columns.push_back({"tokens", Align::kRight});
  for (const std::string header : {"weight", "kept\nwhole", "peak"}) {
    table.columns.push_back({header, Align::kRight});
  }
  table.columns.push_back({"fits"});
  table.columns.push_back({"extra\n" + cost_noun(report.unit), Align::kRight});
  for (const PlannedShape& shape : report.shapes) {
    std::vector<std::string> row = {grouped_text(shape.batch)};
    if (has_tokens) row.push_back(grouped_text(shape.tokens));
    row.push_back(fmt::format("{}", shape.weight));
    row.push_back(bytes_text(shape.keep_all_peak_bytes));
    row.push_back(bytes_text(shape.peak_bytes));
    row.emplace_back(shape.peak_bytes <= report.budget_bytes ? "yes" : "no");
    row.push_back(report.unit == CostUnit::kRecomputes
                      ? grouped_text(shape.extra_cost)
                      : increase_text(shape.step_cost == 0
                                          ? 0
                                          : static_cast<double>(shape.extra_cost) /
                                                static_cast<double>(shape.step_cost)));
    table.rows.push_back(std::move(row));
  }
  return table_text(table);
}

// "at least +3.1 % for any plan; this one +3.4 %: gap 0.3 %".
std::string bound_text(const PlanReport& report) {
  const PlanAnswer& answer = *report.answer;
  const std::int64_t gap = answer.extra_cost - answer.bound.extra_cost;
  std::string text =
      fmt::format("at least {} for any plan", cost_text(report, answer.bound.extra_cost));
  if (gap <= 0) {
    text += ": none costs less than this one";
  } else {
    text += fmt::format("; this one {}: gap {}", cost_text(report, answer.extra_cost),
                        report.unit == CostUnit::kRecomputes ? grouped_text(gap)
                                                             : share_text(gap, report.step_cost));
  }
  if (!answer.bound.reason.empty()) text += fmt::format(" ({})", answer.bound.reason);
  return text;
}

std::string step_time_text(const PlanReport& report) {
  std::string time = duration_text(report.answer->evaluation.time->total_ns);
  if (report.answer->extra_cost == 0) return time;
  return fmt::format("{}: {} instead of {}", cost_text(report, report.answer->extra_cost), time,
                     duration_text(*report.keep_all_ns));
}

std::string costs_lines(const PlanReport& report) {
  const Trace& trace = report.answer->evaluation.trace;
  std::string text;
  if (trace.recompute_count > 0 && report.step_flops > 0) {
    const double share =
        static_cast<double>(trace.recompute_flops) / static_cast<double>(report.step_flops);
    text += labelled_text("extra FLOPs  ", increase_text(share));
  }
  if (report.unit == CostUnit::kNanoseconds && report.keep_all_ns) {
    text += labelled_text("step time    ", step_time_text(report));
  }
  if (trace.recompute_count == 0) return text;
  return text + labelled_text("recomputes   ",
                              fmt::format("{} op{} a step", grouped_text(trace.recompute_count),
                                          trace.recompute_count == 1 ? "" : "s"));
}

// What the target's restriction and its extent cost.
std::string restriction_line(const PlanReport& report) {
  if (!report.unrestricted) return {};
  const UnrestrictedCosts& free = *report.unrestricted;
  std::string text;
  if (!report.answer->is_feasible) {
    if (!free.ideal_extent) return {};
    text = fmt::format("--for any fits, at {}", cost_text(report, *free.ideal_extent));
  } else if (free.same_extent && free.ideal_extent) {
    const std::int64_t restriction = report.answer->extra_cost - *free.same_extent;
    const std::int64_t extent = *free.same_extent - *free.ideal_extent;
    text = restriction == 0 && extent == 0
               ? "costs no more than --for any"
               : fmt::format(
                     "{} instead of {} with --for any: {} for what it can run, {} for its "
                     "extent",
                     cost_text(report, report.answer->extra_cost),
                     cost_text(report, *free.ideal_extent), cost_text(report, restriction),
                     cost_text(report, extent));
  } else {
    text = "fits where no plan for any was found";
  }
  return labelled_text("target       ", text);
}

std::string quality_lines(const PlanReport& report) {
  const PlanAnswer& answer = *report.answer;
  const std::int64_t plan_count =
      answer.plan_count + (report.automatic ? report.automatic->plan_count : 0);
  std::string text;
  if (answer.is_feasible) text += labelled_text("lower bound  ", bound_text(report));
  if (!answer.optimal_for.empty()) text += labelled_text("optimal for  ", answer.optimal_for);
  text += restriction_line(report);
  return text + labelled_text("simulated    ", fmt::format("{} plan{}", grouped_text(plan_count),
                                                           plan_count == 1 ? "" : "s"));
}

std::string feasible_text(const PlanReport& report) {
  const Evaluation& best = report.answer->evaluation;
  const Graph& graph = report.model.graph;
  std::string text = fmt::format("\nPlan: {}\n", best.name);
  text += plan_words_text(graph, best.plan, kMostPlanLines) + "\n";
  text += labelled_text(
      "peak         ",
      fmt::format("{}, in the {}", bytes_text(best.trace.peak_bytes), peak_place(graph, best)));
  if (report.shapes.empty()) text += costs_lines(report);  // else the table has them
  return text + quality_lines(report);
}

// The smallest peak there is, and what holds it.
std::string infeasible_text(const PlanReport& report) {
  const PlanAnswer& smallest = report.automatic ? *report.automatic : *report.answer;
  const Evaluation& best = smallest.evaluation;
  std::string text = labelled_text(
      "", fmt::format("\nPeak of {}: {}, in the {}", best.name, bytes_text(best.trace.peak_bytes),
                      peak_place(report.model.graph, best)));
  text += breakdown_text(best.trace);
  const std::string groups = largest_groups_text(best.trace, kLargestGroups, false);
  if (!groups.empty()) {
    text += "Largest in it besides parameters, gradients and optimizer states\n" + groups;
  }
  text += "\nThe plan with that peak\n" +
          plan_words_text(report.model.graph, best.plan, kMostPlanLines) + "\n";
  text += quality_lines(report);
  if (!report.advice.empty()) text += "\nAdvice\n";
  for (const std::string& line : report.advice) text += labelled_text("- ", line);
  return text;
}

std::string note_of(const ComparedAlgorithm& row) {
  if (!row.answer) return "left out";
  const std::string& made = row.answer->evaluation.plan.algorithm;
  return made == row.name ? "" : made;
}

std::string compared_table(const PlanReport& report) {
  const bool has_times = report.unit == CostUnit::kNanoseconds;
  Table table{.columns = {{"algorithm"}, {"peak", Align::kRight}, {"fits"}}};
  if (report.unit != CostUnit::kRecomputes)
    table.columns.push_back({"extra\nFLOPs", Align::kRight});
  if (has_times) table.columns.push_back({"step\ntime", Align::kRight});
  if (report.unit == CostUnit::kRecomputes) {
    table.columns.push_back({"recomputes", Align::kRight});
  }
  table.columns.push_back({"plan"});
  for (const ComparedAlgorithm& row : report.compared) {
    std::vector<std::string> cells = {row.name};
    if (row.answer) {
      const Trace& trace = row.answer->evaluation.trace;
      cells.push_back(bytes_text(trace.peak_bytes));
      cells.emplace_back(row.answer->is_feasible ? "yes" : "no");
      if (report.unit != CostUnit::kRecomputes) {
        const double flops = static_cast<double>(std::max<std::int64_t>(report.step_flops, 1));
        cells.push_back(increase_text(static_cast<double>(trace.recompute_flops) / flops));
      }
      if (has_times) cells.push_back(cost_text(report, row.answer->extra_cost));
      if (report.unit == CostUnit::kRecomputes) {
        cells.push_back(grouped_text(trace.recompute_count));
      }
    } else {
      cells.resize(table.columns.size() - 1, "-");
    }
    cells.push_back(note_of(row));
    table.rows.push_back(std::move(cells));
  }
  return table_text(table);
}

std::string whole_cost_noun(CostUnit unit) {
  return unit == CostUnit::kNanoseconds ? "step time" : cost_noun(unit);
}

}  // namespace

std::string cost_noun(CostUnit unit) {
  switch (unit) {
    case CostUnit::kNanoseconds:
      return "time";
    case CostUnit::kFlops:
      return "FLOPs";
    case CostUnit::kRecomputes:
      return "recomputes";
  }
  CAIRN_CHECK(false, "unknown unit");
}

double cost_share(const PlanReport& report, std::int64_t extra_cost) {
  if (report.step_cost == 0) return 0;
  return static_cast<double>(extra_cost) / static_cast<double>(report.step_cost);
}

std::string cost_text(const PlanReport& report, std::int64_t extra_cost) {
  if (report.unit == CostUnit::kRecomputes) {
    return fmt::format("{} recompute{}", grouped_text(extra_cost), extra_cost == 1 ? "" : "s");
  }
  return increase_text(cost_share(report, extra_cost));
}

std::string plan_verdict(const PlanReport& report) {
  const PlanAnswer& answer = *report.answer;
  const std::int64_t peak_bytes = answer.evaluation.trace.peak_bytes;
  const std::string budget = bytes_text(report.budget_bytes);
  if (answer.is_feasible) {
    const std::string how =
        answer.evaluation.plan.regions.empty()
            ? "without recomputing anything"
            : fmt::format(
                  "at {}{}", cost_text(report, answer.extra_cost),
                  report.unit == CostUnit::kRecomputes ? "" : " " + whole_cost_noun(report.unit));
    const bool is_mean = !report.shapes.empty() && !answer.evaluation.plan.regions.empty();
    return fmt::format("Fits {}{}: the {}peak is {} of {}, which leaves {}.", how,
                       is_mean ? " in the mean" : "", report.shapes.empty() ? "" : "largest ",
                       bytes_text(peak_bytes), budget,
                       bytes_text(report.budget_bytes - peak_bytes));
  }
  if (report.automatic && report.automatic->is_feasible) {
    return fmt::format(
        "Does not fit with {}: its smallest peak is {}, {} more than {}. With auto it "
        "fits, at {}.",
        strategy_name(report.strategy), bytes_text(peak_bytes),
        bytes_text(peak_bytes - report.budget_bytes), budget,
        cost_text(report, report.automatic->extra_cost));
  }
  const Evaluation& smallest = (report.automatic ? *report.automatic : answer).evaluation;
  return fmt::format(
      "Does not fit: the smallest peak of any plan found, {} with {}, is {} more than {}.",
      bytes_text(smallest.trace.peak_bytes), smallest.name,
      bytes_text(smallest.trace.peak_bytes - report.budget_bytes), budget);
}

std::string plan_text(const PlanReport& report) {
  std::string text = model_header(report.model);
  if (report.gpu) text += gpu_header(*report.gpu);
  text += costs_header(report.costs);
  text += extent_header(report.extent) + target_line(report);
  if (report.budget) text += budget_line(report);
  if (report.answer) {
    text += "\n" + labelled_text("", plan_verdict(report));
    if (!report.shapes.empty()) text += "\n" + shapes_table(report);
    text += report.answer->is_feasible ? feasible_text(report) : infeasible_text(report);
  }
  if (!report.compared.empty()) text += "\n" + compared_table(report);
  if (report.frontier) text += "\n" + frontier_text(report);
  if (!report.notes.empty()) text += "\n";
  for (const std::string& note : report.notes) text += labelled_text("Note: ", note);
  return text;
}

}  // namespace cairn
