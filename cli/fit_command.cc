#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>

#include "cli/command.h"
#include "cli/fit.h"
#include "cli/header.h"
#include "cli/output.h"

namespace cairn {
namespace {

ExitCode run_fit(const FitOptions& options) {
  const FitAnswer answer = answer_fit(options);
  write_output(options.json ? fit_json(answer)
                            : explained_dims(options.model, answer.model) + fit_text(answer));
  const AdviceInput& input = answer.advice_input;
  const bool something_fits = std::any_of(
      input.strategies.begin(), input.strategies.end(),
      [&](const StrategyNumbers& numbers) { return fits(numbers, input.capacity_bytes); });
  return something_fits ? ExitCode::kDone : ExitCode::kDoesNotFit;
}

}  // namespace

Command add_fit_command(CLI::App& app) {
  const auto options = std::make_shared<FitOptions>();
  CLI::App* const command =
      app.add_subcommand("fit", "Will this model fit, and what makes it fit?");
  add_model_options(*command, options->model);
  add_gpu_option(*command, options->gpu);
  command
      ->add_option(
          "--checkpointing", options->checkpointing,
          "Strategy to list beside none, instead of all,\nrepeatable: every-layer, uniform:K, sqrt")
      ->type_name("S")
      ->expected(1)
      ->allow_extra_args(false)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  add_extent_option(*command, options->extent);
  command->add_flag("--explain", options->explain,
                    "Every term of the peak: formula, value, reason, source");
  add_json_option(*command, options->json);
  command->footer(
      "Example: cairn fit llama-3.1-8b --gpu rtx4090 --batch 1 --tokens 2048\n"
      "Exit code: 0 when a listed strategy fits, 1 when none does, 2 for bad input.\n"
      "Without --gpu there is no verdict, and the exit code is 0.");
  return {.app = command, .run = [options] { return run_fit(*options); }};
}

}  // namespace cairn
