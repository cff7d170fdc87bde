#pragma once

#include "cli/exit_code.h"

namespace cairn {

// The whole program: parses the command line, runs the command, and turns what is thrown into a
// message and an exit code.
ExitCode run_cairn(int argc, const char* const* argv);

}  // namespace cairn
