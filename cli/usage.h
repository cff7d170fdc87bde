#pragma once

#include <string>

namespace CLI {  // NOLINT(readability-identifier-naming): CLI11's
class App;
class ParseError;
}  // namespace CLI

// What is wrong with a command line, in our words, with the nearest valid name.

namespace cairn {

// The first argument that no command or option takes: "unknown option '--tokns'; did you mean
// '--tokens'?"; "" when there is none.
std::string unknown_argument(const CLI::App& app);

// For an error of the parser that is not a call for help.
std::string usage_error(const CLI::App& app, const CLI::ParseError& error);

}  // namespace cairn
