#include "models/hf_cache.h"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <system_error>
#include <vector>

namespace cairn {
namespace {

namespace fs = std::filesystem;

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string() : std::string(value);
}

std::string revision_of_main(const fs::path& repository) {
  std::ifstream file(repository / "refs" / "main");
  std::string revision;
  file >> revision;
  return revision.find('/') == std::string::npos ? revision : std::string();
}

}  // namespace

std::filesystem::path hf_cache_folder() {
  if (const std::string hub = environment("HF_HUB_CACHE"); !hub.empty()) return hub;
  if (const std::string home = environment("HF_HOME"); !home.empty()) return fs::path(home) / "hub";
  const std::string home = environment("HOME");
  return fs::path(home.empty() ? "." : home) / ".cache" / "huggingface" / "hub";
}

std::optional<std::filesystem::path> find_in_hf_cache(const std::string& org_and_name) {
  const std::size_t slash = org_and_name.find('/');
  const bool is_org_and_name = slash != std::string::npos && slash > 0 &&
                               slash + 1 < org_and_name.size() &&
                               org_and_name.find('/', slash + 1) == std::string::npos &&
                               org_and_name.find("..") == std::string::npos;
  if (!is_org_and_name) return std::nullopt;
  const fs::path repository = hf_cache_folder() / ("models--" + org_and_name.substr(0, slash) +
                                                   "--" + org_and_name.substr(slash + 1));
  std::error_code error;
  const fs::path snapshots = repository / "snapshots";
  std::vector<fs::path> candidates;
  if (const std::string revision = revision_of_main(repository); !revision.empty()) {
    candidates.push_back(snapshots / revision);
  }
  std::vector<fs::path> others;
  for (const fs::directory_entry& entry : fs::directory_iterator(snapshots, error)) {
    others.push_back(entry.path());
  }
  std::sort(others.begin(), others.end());
  candidates.insert(candidates.end(), others.begin(), others.end());
  for (const fs::path& candidate : candidates) {
    if (fs::is_regular_file(candidate / "config.json", error)) return candidate / "config.json";
  }
  return std::nullopt;
}

}  // namespace cairn
