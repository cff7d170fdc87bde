# Writes the source that defines models/embedded_files.h.
#   cmake -D FOLDER=<folder> -D FILES=<relative paths> -D OUTPUT=<.cc to write> -P embed_files.cmake
# Each file becomes one raw string literal, byte for byte.

set(delimiter "cairn_file")
list(LENGTH FILES count)
set(source "// Written by cmake/embed_files.cmake: edit the files below models/ instead.
#include \"models/embedded_files.h\"

#include <array>

namespace cairn {
namespace {

using namespace std::string_view_literals;

constexpr std::array<EmbeddedFile, ${count}> kEmbeddedFiles = {")
foreach(path IN LISTS FILES)
  file(READ "${FOLDER}/${path}" text)
  string(FIND "${text}" ")${delimiter}\"" clash)
  if(NOT clash EQUAL -1)
    message(FATAL_ERROR "${FOLDER}/${path}: holds )${delimiter}\", which ends its literal")
  endif()
  string(APPEND source
         "\n    EmbeddedFile{\"${path}\"sv, R\"${delimiter}(${text})${delimiter}\"sv},")
endforeach()
string(APPEND source "
};

}  // namespace

std::span<const EmbeddedFile> embedded_files() { return kEmbeddedFiles; }

const EmbeddedFile* find_embedded_file(std::string_view path) {
  for (const EmbeddedFile& file : kEmbeddedFiles) {
    if (file.path == path) return &file;
  }
  return nullptr;
}

}  // namespace cairn
")
file(WRITE "${OUTPUT}" "${source}")
