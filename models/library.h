#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "models/document.h"

// The named files that models are made of: those embedded in the binary, and those in the user's
// folders (DIR/families/*.yaml, DIR/layers/*.yaml, DIR/catalogue/*.yaml), which come first.

namespace cairn {

struct LibraryFile {
  std::string stem = {};            // "llama" of families/llama.yaml
  std::filesystem::path path = {};  // "" for an embedded file
  std::string_view embedded_text = {};
  std::string embedded_name = {};  // "models/families/llama.yaml", for messages
};

// The files of one kind ("families", "layers", "catalogue"), by stem; a user's file hides an
// embedded one of the same stem. Throws InputError for a folder that cannot be read.
std::vector<LibraryFile> library_files(std::string_view kind,
                                       const std::vector<std::filesystem::path>& folders);

Document read_library_file(const LibraryFile& file);

// The file of that stem, or nullptr.
const LibraryFile* find_library_file(const std::vector<LibraryFile>& files, std::string_view stem);

// Files are found by their own names: throws InputError where what one calls itself differs.
void check_own_name(const LibraryFile& file, const Document& document, const std::string& name);

std::vector<std::string> stems(const std::vector<LibraryFile>& files);

}  // namespace cairn
