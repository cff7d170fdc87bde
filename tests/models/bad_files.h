#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

// Files of tests/models/bad, each wrong in one way and named for it.

namespace cairn::test {

struct BadFile {
  std::string name = {};     // "zero_layers.json"
  std::string message = {};  // the whole message, but for the path before ":line" and the excerpt
};

// tests/models/bad
std::filesystem::path bad_folder();

// Feeds every file to `read` and compares messages; every file of the folder has to be listed.
void check_bad_files(const std::string& folder, const std::vector<BadFile>& files,
                     const std::function<void(const std::filesystem::path&)>& read);

}  // namespace cairn::test
