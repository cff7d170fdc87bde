#pragma once

#include <span>
#include <string_view>

// The YAML files below models/ (families, layers, catalogue, gpus, recipes) as they were when the
// binary was built, so that it answers from any folder with no files beside it. Text only: parsing
// belongs to the readers. The definitions are written by cmake/embed_files.cmake.

namespace cairn {

struct EmbeddedFile {
  std::string_view path = {};  // below models/, such as "families/llama.yaml"
  std::string_view text = {};
};

// All of them, ordered by path.
std::span<const EmbeddedFile> embedded_files();

// The file at exactly `path`, or nullptr.
const EmbeddedFile* find_embedded_file(std::string_view path);

}  // namespace cairn
