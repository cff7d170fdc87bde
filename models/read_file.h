#pragma once

#include <cstddef>
#include <filesystem>
#include <string>

namespace cairn {

// The bytes of a file, at most one more than `limit_bytes`, so that the caller can tell when there
// are too many. A pipe may take its time, but one that sends nothing for five seconds is given up.
// Throws InputError for what cannot be read.
std::string read_file(const std::filesystem::path& path, std::size_t limit_bytes);

}  // namespace cairn
