#pragma once

#include <functional>

#include "cli/exit_code.h"

namespace CLI {  // NOLINT(readability-identifier-naming): CLI11's
class App;
}

// Each add_*_command adds one subcommand with its options to the app, and says what runs it once
// they are parsed. Running throws InputError.

namespace cairn {

struct Command {
  CLI::App* app = nullptr;
  std::function<ExitCode()> run = {};
};

Command add_fit_command(CLI::App& app);
Command add_plan_command(CLI::App& app);
Command add_simulate_command(CLI::App& app);
Command add_export_command(CLI::App& app);
Command add_run_command(CLI::App& app);
Command add_diff_command(CLI::App& app);
Command add_show_command(CLI::App& app);
Command add_import_command(CLI::App& app);
Command add_models_command(CLI::App& app);
Command add_recipes_command(CLI::App& app);
Command add_gpus_command(CLI::App& app);
Command add_check_command(CLI::App& app);

}  // namespace cairn
