#include "models/families.h"

#include <fmt/format.h>

#include <algorithm>

#include "graph/error.h"
#include "models/fields.h"
#include "models/library.h"

namespace cairn {
namespace {

std::vector<Document> included_sections(const Document& document, const Folders& folders) {
  std::vector<Document> sections;
  const std::vector<LibraryFile> files = library_files("sections", folders);
  for (const std::string& name : family_includes(document)) {
    const LibraryFile* const file = find_library_file(files, name);
    if (file == nullptr) {
      Fields fields(document, document.root, "a family");
      fail_at(document, fields.require("include").position,
              fmt::format("key 'include': there are no sections {}{}", in_quotes(name),
                          did_you_mean(name, stems(files))));
    }
    sections.push_back(read_library_file(*file));
    Fields fields(sections.back(), sections.back().root, "sections");
    check_own_name(*file, sections.back(), fields.text("sections"));
  }
  return sections;
}

Family read_family(const LibraryFile& file, Document document, const Folders& folders) {
  std::vector<Document> sections = included_sections(document, folders);
  Family family = parse_family(std::move(document), std::move(sections));
  check_own_name(file, *family.document, family.name);
  return family;
}

}  // namespace

Family family_named(const Document& document, const Node& name, const Folders& folders) {
  const std::vector<LibraryFile> files = library_files("families", folders);
  if (const LibraryFile* file = find_library_file(files, name.scalar)) {
    return read_family(*file, read_library_file(*file), folders);
  }
  fail_at(document, name.position,
          fmt::format("unknown family '{}'{}; known: {}", name.scalar,
                      did_you_mean(name.scalar, stems(files)), join_names(stems(files))));
}

std::optional<Family> family_of_model_type(const std::string& model_type, const Folders& folders) {
  for (const LibraryFile& file : library_files("families", folders)) {
    // An embedded file that does not mention the type need not be parsed.
    if (file.path.empty() && file.embedded_text.find(model_type) == std::string_view::npos)
      continue;
    Document document = read_library_file(file);
    const std::vector<std::string> types = family_model_types(document);
    if (std::find(types.begin(), types.end(), model_type) != types.end()) {
      return read_family(file, std::move(document), folders);
    }
  }
  return std::nullopt;
}

std::vector<std::string> known_model_types(const Folders& folders) {
  std::vector<std::string> known;
  for (const LibraryFile& file : library_files("families", folders)) {
    const std::vector<std::string> types = family_model_types(read_library_file(file));
    known.insert(known.end(), types.begin(), types.end());
  }
  std::sort(known.begin(), known.end());
  return known;
}

std::map<std::string, std::string> family_titles(const Folders& folders) {
  std::map<std::string, std::string> titles;
  for (const LibraryFile& file : library_files("families", folders)) {
    const Document document = read_library_file(file);
    std::string& title = titles[file.stem];
    for (const Entry& entry : document.root.entries) {
      if (entry.key == "title") title = entry.value.scalar;
    }
  }
  return titles;
}

}  // namespace cairn
