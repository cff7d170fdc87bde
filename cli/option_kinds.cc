#include "cli/option_kinds.h"

#include <CLI/CLI.hpp>
#include <cstdint>

namespace cairn {

void add_repeatable_option(CLI::App& command, const std::string& name, const std::string& value,
                           std::vector<std::string>& values, const std::string& help) {
  command.add_option(name, values, help)
      ->type_name(value)
      ->expected(1)
      ->allow_extra_args(false)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
}

void add_undoable_flag(CLI::App& command, const std::string& name, std::optional<bool>& flag,
                       const std::string& help) {
  command.add_flag_function(
      name, [&flag](std::int64_t count) { flag = count > 0; }, help);
}

}  // namespace cairn
