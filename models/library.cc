#include "models/library.h"

#include <fmt/format.h>

#include <algorithm>
#include <system_error>

#include "graph/error.h"
#include "models/embedded_files.h"

namespace cairn {
namespace {

namespace fs = std::filesystem;

std::vector<LibraryFile> files_of_folder(const fs::path& folder, std::string_view kind) {
  std::error_code error;
  if (!fs::is_directory(folder, error)) {
    throw InputError(fmt::format("{}: expected a folder of model files, found {}", folder.string(),
                                 fs::exists(folder, error) ? "a file" : "nothing there"));
  }
  std::vector<LibraryFile> files;
  const fs::path of_kind = folder / kind;
  if (!fs::is_directory(of_kind, error)) return files;
  for (const fs::directory_entry& entry : fs::directory_iterator(of_kind, error)) {
    if (entry.path().extension() != ".yaml") continue;
    files.push_back({.stem = entry.path().stem().string(), .path = entry.path()});
  }
  if (error) throw InputError(fmt::format("{}: {}", of_kind.string(), error.message()));
  return files;
}

}  // namespace

std::vector<LibraryFile> library_files(std::string_view kind,
                                       const std::vector<std::filesystem::path>& folders) {
  std::vector<LibraryFile> files;
  for (const fs::path& folder : folders) {
    for (LibraryFile& file : files_of_folder(folder, kind)) files.push_back(std::move(file));
  }
  const std::string prefix = std::string(kind) + "/";
  for (const EmbeddedFile& embedded : embedded_files()) {
    if (!embedded.path.starts_with(prefix)) continue;
    files.push_back({.stem = fs::path(embedded.path).stem().string(),
                     .embedded_text = embedded.text,
                     .embedded_name = "models/" + std::string(embedded.path)});
  }
  std::stable_sort(files.begin(), files.end(),
                   [](const LibraryFile& a, const LibraryFile& b) { return a.stem < b.stem; });
  files.erase(
      std::unique(files.begin(), files.end(),
                  [](const LibraryFile& a, const LibraryFile& b) { return a.stem == b.stem; }),
      files.end());
  return files;
}

Document read_library_file(const LibraryFile& file) {
  if (!file.path.empty()) return read_document(file.path);
  return parse_document(file.embedded_name, std::string(file.embedded_text));
}

const LibraryFile* find_library_file(const std::vector<LibraryFile>& files, std::string_view stem) {
  for (const LibraryFile& file : files) {
    if (file.stem == stem) return &file;
  }
  return nullptr;
}

void check_own_name(const LibraryFile& file, const Document& document, const std::string& name) {
  if (name == file.stem) return;
  fail_at(document, document.root.position,
          fmt::format("this file is '{}.yaml', but calls itself '{}'", file.stem, name));
}

std::vector<std::string> stems(const std::vector<LibraryFile>& files) {
  std::vector<std::string> names;
  for (const LibraryFile& file : files) names.push_back(file.stem);
  return names;
}

}  // namespace cairn
