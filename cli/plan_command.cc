#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "cli/command.h"
#include "cli/costs_option.h"
#include "cli/header.h"
#include "cli/output.h"
#include "cli/plan_report.h"
#include "models/plan_file.h"
#include "models/plan_origin.h"
#include "models/write_file.h"

namespace cairn {
namespace {

constexpr std::string_view kStdout = "-";

// To a file where a plan fits. That of several shapes says nothing of its graph, for it has
// several.
void write_plan(const PlanOptions& options, PlanReport& report) {
  if (!options.output) return;
  const PlanAnswer& answer = *report.answer;
  if (!answer.is_feasible) {
    report.notes.push_back(fmt::format("no plan fits: {} is not written", *options.output));
  } else if (report.shapes.empty()) {
    write_plan_file(*options.output, report.request, report.model, answer.evaluation.plan);
  } else {
    write_plan_file(*options.output, report.model.graph, answer.evaluation.plan);
  }
}

// Nothing but the plan file: where there is none, why not goes to stderr.
void print_plan_file(const PlanReport& report) {
  if (!report.answer->is_feasible) return write_error(plan_verdict(report));
  const PlanOrigin origin = report.shapes.empty() ? plan_origin(report.request, report.model,
                                                                report.answer->evaluation.plan)
                                                  : PlanOrigin{};
  write_output(plan_file_text(report.model.graph, report.answer->evaluation.plan, origin));
}

void print_report(const PlanOptions& options, const PlanReport& report) {
  if (options.json) {
    write_output(plan_json(report));
  } else if (options.csv) {
    write_output(frontier_csv(report));
  } else {
    write_output(explained_dims(options.model, report.model) + plan_text(report));
  }
}

ExitCode run_plan(const PlanOptions& options) {
  PlanReport report = plan_report(options);
  if (options.output == kStdout) {
    print_plan_file(report);
  } else {
    write_plan(options, report);
    if (options.svg) write_file(*options.svg, frontier_svg(report));
    print_report(options, report);
  }
  return report.answer && !report.answer->is_feasible ? ExitCode::kDoesNotFit : ExitCode::kDone;
}

void add_names(CLI::App& command, const std::string& name, std::vector<std::string>& names,
               const std::string& help) {
  command.add_option(name, names, help)
      ->type_name("NAME")
      ->expected(1)
      ->allow_extra_args(false)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
}

void add_plan_options(CLI::App& command, PlanOptions& options) {
  command
      .add_option("--budget", options.budget,
                  "Most bytes of the peak: 12GiB; 60% of the peak of\nkeeping everything; "
                  "gpu:rtx4090; default what --gpu\nleaves")
      ->type_name("B");
  command
      .add_option("--algorithm", options.algorithm,
                  "none, every-layer, uniform:K, sqrt, chen-greedy,\nrevolve, selective, chain or "
                  "auto (default): the best\nof all")
      ->type_name("A");
  command
      .add_option(
          "--for", options.target,
          "Plans that this can run: torch (default), hf,\nmegatron, torchtitan, jax, or any")
      ->type_name("TARGET");
  command
      .add_option("--extent", options.extent,
                  "How much a recompute reruns: needed, prefix or whole;\ndefault that of --for")
      ->type_name("E");
  add_names(command, "--keep", options.keep,
            "Never drop this op's or tensor's bytes, such as\n'*.attn'; repeatable");
  add_names(command, "--recompute", options.recompute, "Always drop it; repeatable");
  command
      .add_option("--shapes", options.shapes,
                  "One plan for all of a YAML list of\n{batch: 8, tokens: 2048, weight: 3}")
      ->type_name("FILE");
  command.add_flag("--compare", options.compare, "Every algorithm at this budget, in one table");
  command.add_flag("--frontier", options.frontier,
                   "Every useful budget: peak, cost, price of memory");
  command.add_option("-o,--output", options.output, "Write the plan to a file; - is stdout")
      ->type_name("FILE");
  command.add_option("--svg", options.svg, "Draw the frontier")->type_name("FILE");
  command.add_flag("--csv", options.csv, "The frontier as comma-separated values");
}

}  // namespace

Command add_plan_command(CLI::App& app) {
  const auto options = std::make_shared<PlanOptions>();
  CLI::App* const command =
      app.add_subcommand("plan", "What to recompute within a budget, and at what cost?");
  add_plan_options(*command, *options);
  add_model_options(*command, options->model);
  add_gpu_option(*command, options->gpu);
  add_costs_option(*command, options->costs);
  add_json_option(*command, options->json);
  command->footer(
      "Example: cairn plan llama-3.2-1b --batch 4 --gpu rtx4090 --for hf -o plan.yaml\n"
      "Exit code: 0 when a plan fits the budget, 1 when none does, 2 for bad input.");
  return {.app = command, .run = [options] { return run_plan(*options); }};
}

}  // namespace cairn
