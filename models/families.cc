#include "models/families.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

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

// What there is, for an error.
struct KnownLibraries {
  std::set<std::string> known = {};
  std::set<std::string> of_own = {};    // that have code for the family
  std::set<std::string> families = {};  // that the library has code for
};

[[noreturn]] void refuse_library(const std::string& family, const std::string& library,
                                 const KnownLibraries& libraries) {
  const auto listed = [](const std::set<std::string>& names) {
    return join_names({names.begin(), names.end()});
  };
  const std::string own = libraries.of_own.empty() ? "none" : listed(libraries.of_own);
  if (!libraries.known.contains(library)) {
    throw InputError(
        fmt::format("--library {}: no such library; family '{}' has code of: {}{}", library, family,
                    own, did_you_mean(library, {libraries.known.begin(), libraries.known.end()})));
  }
  throw InputError(fmt::format(
      "--library {}: it has no code for family '{}', which has that of: {}; it has for: {}",
      library, family, own, listed(libraries.families)));
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

Family family_in_library(Family own, const std::string& library, const Folders& folders) {
  if (library.empty() || own.library == library) return own;
  std::vector<const LibraryFile*> found;
  std::set<std::string> known;     // libraries
  std::set<std::string> of_own;    // libraries that run models of `own`
  std::set<std::string> families;  // that `library` runs
  if (!own.library.empty()) of_own.insert(own.library);
  const std::vector<LibraryFile> files = library_files("families", folders);
  for (const LibraryFile& file : files) {
    const Document document = read_library_file(file);
    const std::string its = family_library(document);
    if (its.empty()) continue;
    known.insert(its);
    const std::vector<std::string> stands_for = family_stands_for(document);
    const bool is_for_own =
        std::find(stands_for.begin(), stands_for.end(), own.name) != stands_for.end();
    if (is_for_own) of_own.insert(its);
    if (its != library) continue;
    if (is_for_own) found.push_back(&file);
    families.insert(stands_for.begin(), stands_for.end());
    if (stands_for.empty()) families.insert(file.stem);
  }
  if (found.size() == 1) return read_family(*found[0], read_library_file(*found[0]), folders);
  if (found.size() > 1) {
    throw InputError(fmt::format("--library {}: families '{}' and '{}' both stand for '{}'",
                                 library, found[0]->stem, found[1]->stem, own.name));
  }
  refuse_library(own.name, library, {.known = known, .of_own = of_own, .families = families});
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
