#include "cli/usage.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <string_view>
#include <vector>

#include "graph/error.h"

namespace cairn {
namespace {

// The command that was given, else the app itself.
const CLI::App& used_app(const CLI::App& app) {
  const std::vector<CLI::App*> used = app.get_subcommands();
  return used.empty() ? app : *used.front();
}

std::vector<std::string> option_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* const option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  return names;
}

std::vector<std::string> command_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* const command : app.get_subcommands([](const CLI::App*) { return true; })) {
    names.push_back(command->get_name());
  }
  return names;
}

std::string see_help(const CLI::App& app) {
  const bool is_command = app.get_parent() != nullptr;
  return fmt::format("see 'cairn {}--help'", is_command ? app.get_name() + " " : std::string());
}

std::string unknown_in(const CLI::App& app, const std::string& argument) {
  if (argument.starts_with('-')) {
    const std::string name = argument.substr(0, argument.find('='));
    const std::string offer = did_you_mean(name, option_names(app));
    return fmt::format("unknown option '{}'{}", name, offer.empty() ? "; " + see_help(app) : offer);
  }
  if (app.get_parent() == nullptr) {
    const std::vector<std::string> commands = command_names(app);
    const std::string offer = did_you_mean(argument, commands);
    return fmt::format("unknown command '{}'{}", argument,
                       offer.empty() ? ": expected one of " + join_names(commands) : offer);
  }
  return fmt::format("unexpected argument '{}'; {}", argument, see_help(app));
}

}  // namespace

std::string unknown_argument(const CLI::App& app) {
  const CLI::App& used = used_app(app);
  for (const CLI::App* const part : {&app, &used}) {
    for (const std::string& argument : part->remaining(false)) {
      if (argument != "--") return unknown_in(*part, argument);
    }
  }
  return {};
}

std::string usage_error(const CLI::App& app, const CLI::ParseError& error) {
  std::string unknown = unknown_argument(app);
  if (!unknown.empty()) return unknown;
  const CLI::App& used = used_app(app);
  const std::string_view what = error.what();
  const std::string option(what.substr(0, what.find(':')));
  if (error.get_name() == "RequiredError") {
    return fmt::format("expected a {}: 'cairn {} {}'; {}",
                       std::string(what.substr(0, what.find(' '))), used.get_name(),
                       std::string(what.substr(0, what.find(' '))), see_help(used));
  }
  if (error.get_name() == "ArgumentMismatch") {
    const bool is_repeated = what.find("At Most") != std::string_view::npos;
    return is_repeated ? fmt::format("option '{}' is given more than once", option)
                       : fmt::format("option '{}' needs a value; {}", option, see_help(used));
  }
  return fmt::format("{}; {}", what, see_help(used));
}

}  // namespace cairn
