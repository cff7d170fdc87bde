#include "tests/docs/fenced_files.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include <fstream>
#include <sstream>

namespace cairn::test {

namespace fs = std::filesystem;

TemporaryFolder::TemporaryFolder() {
  std::string pattern = (fs::temp_directory_path() / "cairn_test_XXXXXX").string();
  REQUIRE(mkdtemp(pattern.data()) != nullptr);
  path_ = pattern;
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

std::vector<std::string> write_fenced_files(const std::string& page, const fs::path& folder) {
  std::ifstream input(fs::path(CAIRN_SOURCE_DIR) / page);
  REQUIRE_MESSAGE(input, page);
  std::vector<std::string> paths;
  std::ofstream output;
  bool in_block = false;
  for (std::string line; std::getline(input, line);) {
    if (!line.starts_with("```")) {
      if (output.is_open()) output << line << '\n';
      continue;
    }
    if (in_block) {
      output.close();
      in_block = false;
      continue;
    }
    in_block = true;
    std::istringstream info(line.substr(3));
    std::string language;
    std::string path;
    if (!(info >> language >> path) || path.find('.') == std::string::npos) continue;
    fs::create_directories((folder / path).parent_path());
    output.open(folder / path);
    REQUIRE_MESSAGE(output, path);
    paths.push_back(path);
  }
  return paths;
}

}  // namespace cairn::test
