#pragma once

#include <filesystem>
#include <string_view>

namespace cairn {

// Writes a file beside `path` and gives it that name when it is complete, so that nobody sees half
// of it and what was there stays when something fails. Throws InputError.
void write_file(const std::filesystem::path& path, std::string_view bytes);

}  // namespace cairn
