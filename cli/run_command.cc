#include <CLI/CLI.hpp>
#include <memory>

#include "cli/command.h"
#include "cli/header.h"
#include "cli/output.h"
#include "cli/run_report.h"
#include "models/cost_file.h"

namespace cairn {
namespace {

ExitCode run_run(const RunOptions& options) {
  const RunAnswer answer = answer_run(options);
  if (!answer.report) {
    write_error(answer.verdict);
    return ExitCode::kDoesNotFit;
  }
  const RunReport& report = *answer.report;
  if (options.profile) {
    write_costs(*options.profile, report.request, report.model, *report.costs);
  }
  write_output(options.json ? run_json(report)
                            : explained_dims(options.model, report.model) + run_text(report));
  return holds(report) ? ExitCode::kDone : ExitCode::kDoesNotFit;
}

void add_run_options(CLI::App& command, RunOptions& options) {
  command
      .add_option("--budget", options.budget,
                  "Run the cheapest plan whose peak here is within:\n12GiB; 60% of the peak of "
                  "keeping everything")
      ->type_name("B");
  add_checkpointing_option(command, options.checkpointing);
  command.add_option("--plan", options.plan, "A plan file for MODEL, instead of a strategy")
      ->type_name("FILE");
  add_extent_option(command, options.extent);
  command.add_option("--device", options.device, "cpu (default), cuda or cuda:N")->type_name("D");
  command
      .add_option("--steps", options.steps,
                  "Training steps; default 2: the first makes the\noptimizer's states")
      ->type_name("N");
  command
      .add_option("--limit", options.limit,
                  "Most live bytes of the plan, 8GiB: an allocation\nbeyond it fails")
      ->type_name("BYTES");
  command
      .add_option(
          "--profile", options.profile,
          "Write the times of ops, when everything is kept,\nas costs for plan and simulate")
      ->type_name("FILE");
  command.add_option("--text", options.text, "Train on the bytes of a file; default random tokens")
      ->type_name("FILE");
  command.add_option("--seed", options.seed, "Of weights, inputs and dropout; default 1")
      ->type_name("N");
  command.add_option("--learning-rate", options.learning_rate, "Of the optimizer; default 0.001")
      ->type_name("F");
  command
      .add_option("--save-tensors", options.save_tensors,
                  "Write the tensors of the first training step here,\none .npy file each")
      ->type_name("DIR");
  command.add_flag("--alone", options.alone, "Do not run keeping everything too");
  command.add_flag("--poison", options.poison, "Overwrite freed memory with NaN");
}

}  // namespace

Command add_run_command(CLI::App& app) {
  const auto options = std::make_shared<RunOptions>();
  CLI::App* const command =
      app.add_subcommand("run", "Does a plan run as simulated, on this machine?");
  add_run_options(*command, *options);
  add_model_options(*command, options->model);
  command->get_option("MODEL")->description(
      "Catalogue name; config.json or its folder; model,\ngraph or plan file; org/name in the "
      "Hugging Face\ncache");
  add_json_option(*command, options->json);
  command->footer(
      "Example: cairn run gpt2 --set layers=2 --tokens 128 --checkpointing every-layer\n"
      "Exit code: 0 when all is equal, 1 when anything differs, a loss is no number or\n"
      "no plan fits, 2 for bad input, 3 when the device fails or has too little memory.");
  return {.app = command, .run = [options] { return run_run(*options); }};
}

}  // namespace cairn
