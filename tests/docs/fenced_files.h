#pragma once

#include <filesystem>
#include <string>
#include <vector>

// Example files that a Markdown page shows, so that tests can read them exactly as shown. The info
// string of their fence has a path as its second word: "```yaml families/nanogpt.yaml".

namespace cairn::test {

// A folder of its own, removed at the end.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_ = {};
};

// Writes every such file of `page` (a path from the repository's root) below `folder`; returns
// their paths as the page has them, in its order.
std::vector<std::string> write_fenced_files(const std::string& page,
                                            const std::filesystem::path& folder);

}  // namespace cairn::test
