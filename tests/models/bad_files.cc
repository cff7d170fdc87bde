#include "tests/models/bad_files.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "graph/error.h"

namespace cairn::test {
namespace {

// Without the folder's path, and without the excerpt with its caret.
std::string shortened(std::string message, const std::filesystem::path& folder) {
  const std::string prefix = folder.string() + "/";
  for (std::size_t i = message.find(prefix); i != std::string::npos; i = message.find(prefix)) {
    message.erase(i, prefix.size());
  }
  const std::size_t line_end = message.find('\n');
  // The place of the family's op behind a model's message; one of Cairn's own may move.
  const bool has_place = line_end != std::string::npos &&
                         message.compare(line_end + 1, 4, "  at") == 0 &&
                         message.compare(line_end + 1, 12, "  at models/") != 0;
  return has_place ? message : message.substr(0, line_end);
}

}  // namespace

std::filesystem::path bad_folder() {
  return std::filesystem::path(CAIRN_SOURCE_DIR) / "tests/models/bad";
}

void check_bad_files(const std::string& folder, const std::vector<BadFile>& files,
                     const std::function<void(const std::filesystem::path&)>& read) {
  const std::filesystem::path path = bad_folder() / folder;
  for (const BadFile& file : files) {
    CAPTURE(file.name);
    std::string message = "accepted";
    try {
      read(path / file.name);
    } catch (const InputError& error) {
      message = shortened(error.what(), path);
    }
    CHECK(message == file.message);
  }
  for (const auto& entry : std::filesystem::directory_iterator(path)) {
    const std::string name = entry.path().filename().string();
    const bool is_listed = std::any_of(files.begin(), files.end(),
                                       [&](const BadFile& file) { return file.name == name; });
    CHECK_MESSAGE(is_listed, name << " is not in the table");
  }
}

}  // namespace cairn::test
