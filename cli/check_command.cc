#include <CLI/CLI.hpp>
#include <memory>

#include "cli/check.h"
#include "cli/command.h"
#include "cli/model_options.h"
#include "cli/output.h"
#include "models/write_file.h"

namespace cairn {
namespace {

struct CheckOptions {
  std::vector<std::string> paths = {};
  std::vector<std::string> bounds = {};
  std::optional<std::string> markdown = {};
  bool json = false;
};

ExitCode run_check(const CheckOptions& options) {
  const CheckAnswer answer = answer_check(options.paths, options.bounds);
  if (options.markdown) write_file(*options.markdown, check_markdown(answer));
  write_output(options.json ? check_json(answer) : check_text(answer));
  return all_bounds_met(answer) ? ExitCode::kDone : ExitCode::kDoesNotFit;
}

}  // namespace

Command add_check_command(CLI::App& app) {
  const auto options = std::make_shared<CheckOptions>();
  CLI::App* const command =
      app.add_subcommand("check", "How near does this come to published measurements?");
  command
      ->add_option("FILE", options->paths,
                   "Measurement files (docs/formats.md); of a folder\nall *.yaml in it")
      ->required()
      ->type_name("");
  command
      ->add_option("--bound", options->bounds,
                   "Most error of the cases of confidence 3, beside the\nbounds of the files: "
                   "median=3%, p90=8% or worst=9%;\nrepeatable")
      ->type_name("STAT=P%")
      ->expected(1)
      ->allow_extra_args(false)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  command->add_option("--md", options->markdown, "Write the tables as Markdown to a file, too")
      ->type_name("FILE");
  add_json_option(*command, options->json);
  command->footer(
      "Example: cairn check tests/measured --bound median=3%\n"
      "Exit code: 0 when all bounds are met, 1 when one is not, 2 for bad input.");
  return {.app = command, .run = [options] { return run_check(*options); }};
}

}  // namespace cairn
