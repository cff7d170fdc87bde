#include "cli/run.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <new>
#include <string>
#include <vector>

#include "cli/command.h"
#include "cli/output.h"
#include "cli/usage.h"
#include "cli/version.h"
#include "executor/array.h"
#include "executor/device.h"
#include "graph/error.h"

namespace cairn {
namespace {

constexpr std::size_t kHelpColumn = 26;

std::vector<Command> add_commands(CLI::App& app) {
  return {add_fit_command(app),     add_plan_command(app),   add_simulate_command(app),
          add_export_command(app),  add_run_command(app),    add_diff_command(app),
          add_show_command(app),    add_import_command(app), add_models_command(app),
          add_recipes_command(app), add_gpus_command(app),   add_check_command(app)};
}

void describe(CLI::App& app) {
  app.description("Plans gradient checkpointing and simulates training memory.");
  app.set_version_flag("-V,--version", fmt::format("cairn {}", kVersion), "Print the version");
  app.get_formatter()->column_width(kHelpColumn);
  app.get_formatter()->label("Positionals", "Arguments");
  app.get_formatter()->label("SUBCOMMAND", "COMMAND");
  app.get_formatter()->label("REQUIRED", "");
  app.footer(
      "Example: cairn fit llama-3.1-8b --gpu rtx4090\n"
      "'cairn COMMAND --help' shows the options of a command.");
  app.require_subcommand(0, 1);
}

ExitCode run_parsed(CLI::App& app, const std::vector<Command>& commands) {
  const std::string unknown = unknown_argument(app);
  if (!unknown.empty()) throw InputError(unknown);
  for (const Command& command : commands) {
    if (command.app->parsed()) return command.run();
  }
  std::fputs(app.help().c_str(), stderr);
  return ExitCode::kBadInput;
}

ExitCode parse_and_run(int argc, const char* const* argv) {
  CLI::App app("", "cairn");
  describe(app);
  const std::vector<Command> commands = add_commands(app);
  for (const Command& command : commands) command.app->group("Commands");
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    write_output(app.help());
    return ExitCode::kDone;
  } catch (const CLI::CallForVersion& version) {
    write_output(std::string(version.what()) + "\n");
    return ExitCode::kDone;
  } catch (const CLI::ParseError& error) {
    throw InputError(usage_error(app, error));
  }
  return run_parsed(app, commands);
}

}  // namespace

ExitCode run_cairn(int argc, const char* const* argv) {
  try {
    return parse_and_run(argc, argv);
  } catch (const InputError& error) {
    write_error(error.what());
  } catch (const DeviceError& error) {
    write_error(error.what());
    return ExitCode::kDeviceFailure;
  } catch (const ScheduleFault& fault) {
    write_error(fault.what());
    return ExitCode::kDoesNotFit;
  } catch (const std::bad_alloc&) {
    write_error("out of memory on this machine: the graph is too large to be held");
  }
  return ExitCode::kBadInput;
}

}  // namespace cairn
