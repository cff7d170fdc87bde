#pragma once

#include <string_view>

// stdout is data, stderr is talk. Reports are made whole and then written at once.

namespace cairn {

// A reader that went away (`| head -1`) is no fault; anything else throws InputError.
void write_output(std::string_view text);

// One finished message, with "cairn: " in front unless it begins with "file:line".
// Control characters and what is not UTF-8 are shown as '?'.
void write_error(std::string_view message);

}  // namespace cairn
