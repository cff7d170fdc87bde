#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>

#include "cli/command.h"
#include "cli/export_report.h"
#include "cli/output.h"
#include "graph/error.h"
#include "models/read_file.h"
#include "models/write_file.h"

namespace cairn {
namespace {

constexpr std::size_t kMostBytes = 1000;  // of a file, to know it by its beginning

// Throws InputError for what is there and is no file of ours.
void check_may_write(const ExportOptions& options) {
  std::error_code error;
  if (!options.output || !std::filesystem::exists(*options.output, error)) return;
  if (std::filesystem::is_directory(*options.output, error)) {
    throw InputError(*options.output + ": expected a file, found a folder");
  }
  if (options.force) return;
  if (std::filesystem::is_regular_file(*options.output, error) &&
      is_exported_text(read_file(*options.output, kMostBytes))) {
    return;
  }
  throw InputError(*options.output +
                   ": cairn export did not make this file: --force writes over it");
}

ExitCode run_list(const ExportOptions& options) {
  if (!options.model.model.empty()) {
    throw InputError(options.model.model + " and --list: expected one of them, found both");
  }
  write_output(options.json ? export_targets_json() : export_targets_text());
  return ExitCode::kDone;
}

ExitCode run_export(const ExportOptions& options) {
  if (options.list) return run_list(options);
  if (options.model.model.empty()) throw InputError("PLAN: expected a plan file, found none");
  check_may_write(options);
  ExportReport report;
  make_export_report(options, report);
  const bool is_refused = report.answer.verdict == ExportVerdict::kRefused;
  if (options.output && !is_refused) write_file(*options.output, exported_text(report));
  if (options.json) {
    write_output(export_json(report));
  } else if (!is_refused) {
    write_output(options.output ? export_text(report) : exported_text(report));
  }
  const bool is_told = options.json || options.output.has_value();
  if (is_refused || (!is_told && report.answer.verdict == ExportVerdict::kApproximated)) {
    write_error(export_verdict(report));
  }
  return is_refused ? ExitCode::kDoesNotFit : ExitCode::kDone;
}

void add_export_options(CLI::App& command, ExportOptions& options) {
  command.add_option("--to", options.target, "Which trainer: see --list")->type_name("TARGET");
  command.add_option("-o,--output", options.output, "Write the text to a file, and a report here")
      ->type_name("FILE");
  command.add_flag("--force", options.force, "Write over a file that is not of this command");
  command.add_flag("--best", options.best,
                   "The best plan that the trainer can be told, in place\nof PLAN");
  command
      .add_option("--budget", options.budget,
                  "For --best: most bytes of the peak, as cairn plan\ntakes them; default the peak "
                  "of PLAN, or what --gpu\nleaves")
      ->type_name("B");
  add_checkpointing_option(command, options.checkpointing);
  command.add_option("--plan", options.plan, "A plan file for MODEL, instead of a strategy")
      ->type_name("FILE");
  add_extent_option(command, options.extent);
  command.add_flag("--list", options.list, "The targets, and what each can be told");
}

}  // namespace

Command add_export_command(CLI::App& app) {
  const auto options = std::make_shared<ExportOptions>();
  CLI::App* const command = app.add_subcommand("export", "How do I give a plan to my trainer?");
  add_export_options(*command, *options);
  add_model_options(*command, options->model);
  command->get_option("MODEL")->required(false)->description(
      "Plan file; or, with --plan, --checkpointing or\n--best, a model as cairn plan takes it");
  add_gpu_option(*command, options->gpu);
  add_json_option(*command, options->json);
  command->footer(
      "Example: cairn export plan.yaml --to hf -o checkpointing.py\n"
      "Exit code: 0 when it is exported, 1 when the trainer can be told no such plan, 2\n"
      "for bad input.");
  return {.app = command, .run = [options] { return run_export(*options); }};
}

}  // namespace cairn
