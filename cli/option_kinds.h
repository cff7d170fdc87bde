#pragma once

#include <optional>
#include <string>
#include <vector>

namespace CLI {  // NOLINT(readability-identifier-naming): CLI11's
class App;
}

namespace cairn {

// An option that can be given again and again, each time with one value of that kind.
void add_repeatable_option(CLI::App& command, const std::string& name, const std::string& value,
                           std::vector<std::string>& values, const std::string& help);

// A flag that can be taken back too: --dora=false undoes a recipe's.
void add_undoable_flag(CLI::App& command, const std::string& name, std::optional<bool>& flag,
                       const std::string& help);

}  // namespace cairn
