#include "models/find_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <system_error>

#include "graph/error.h"
#include "models/fields.h"
#include "models/hf_cache.h"
#include "models/library.h"
#include "models/plain_graph.h"

namespace cairn {
namespace {

namespace fs = std::filesystem;

bool has_key(const Document& document, std::string_view key) {
  return std::any_of(document.root.entries.begin(), document.root.entries.end(),
                     [&](const Entry& entry) { return entry.key == key; });
}

std::string name_of_path(const fs::path& path) {
  std::string stem = path.stem().string();
  if (stem != "config") return stem;
  const std::string folder = fs::absolute(path).parent_path().filename().string();
  return folder.empty() ? stem : folder;
}

bool looks_like_a_path(const std::string& model) {
  return model.ends_with(".yaml") || model.ends_with(".yml") || model.ends_with(".json") ||
         model.starts_with("/") || model.starts_with("./") || model.starts_with("../") ||
         model.starts_with("~");
}

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

// The catalogue model whose `source` is this org/name.
const LibraryFile* find_by_source(const std::vector<LibraryFile>& catalogue,
                                  const std::string& source) {
  for (const LibraryFile& file : catalogue) {
    const Document document = read_library_file(file);
    for (const Entry& entry : document.root.entries) {
      if (entry.key == "source" && lower(entry.value.scalar) == lower(source)) return &file;
    }
  }
  return nullptr;
}

// The catalogue model of that name, whatever the case of its letters.
const LibraryFile* find_by_name(const std::vector<LibraryFile>& catalogue,
                                const std::string& name) {
  const auto found = std::find_if(catalogue.begin(), catalogue.end(), [&](const LibraryFile& file) {
    return lower(file.stem) == lower(name);
  });
  return found == catalogue.end() ? nullptr : &*found;
}

}  // namespace

FoundModel classify_model(Document document, std::string name) {
  if (document.root.kind != NodeKind::kMapping) {
    fail_at(document, document.root.position,
            "expected a model (a mapping), found " + describe(document.root));
  }
  FoundModel found{.name = std::move(name)};
  if (is_plain_graph(document)) {
    found.kind = ModelFileKind::kPlainGraph;
  } else if (has_key(document, "model")) {
    found.kind = ModelFileKind::kModelFile;
  } else if (has_key(document, "model_type") || has_key(document, "text_config") ||
             has_key(document, "architectures")) {
    found.kind = ModelFileKind::kHfConfig;
  } else if (has_key(document, "family") && has_key(document, "ops")) {
    fail_at(document, document.root.position,
            "this is a family, which has no sizes: give a model of it (a file with 'model', "
            "'family' and 'dims'), and its folder with --models");
  } else {
    fail_at(document, document.root.position,
            "expected a plain graph ('cairn_graph'), a model file ('model') or a Hugging Face "
            "config ('model_type'), found none of these keys");
  }
  found.document = std::move(document);
  return found;
}

FoundModel read_catalogue_model(const LibraryFile& file) {
  return classify_model(read_library_file(file), file.stem);
}

FoundModel find_model(const std::string& model, const std::vector<std::filesystem::path>& folders) {
  if (model.empty()) throw InputError("expected a model, found an empty name");
  std::error_code error;
  if (fs::is_directory(model, error) && fs::exists(fs::path(model) / "config.json", error)) {
    const fs::path config = fs::path(model) / "config.json";
    return classify_model(read_document(config), name_of_path(config));
  }
  if (fs::is_directory(model, error) && (looks_like_a_path(model) || model.ends_with("/"))) {
    throw InputError(model + ": expected a folder with a config.json, found none in it");
  }
  if (looks_like_a_path(model) || fs::is_regular_file(model, error)) {
    return classify_model(read_document(model), name_of_path(model));
  }
  const std::vector<LibraryFile> catalogue = library_files("catalogue", folders);
  if (const LibraryFile* file = find_by_name(catalogue, model)) {
    return read_catalogue_model(*file);
  }
  if (model.find('/') != std::string::npos) {
    if (const std::optional<fs::path> cached = find_in_hf_cache(model)) {
      return classify_model(read_document(*cached), model);
    }
    if (const LibraryFile* file = find_by_source(catalogue, model)) {
      return read_catalogue_model(*file);
    }
    throw InputError(fmt::format(
        "unknown model '{}': no such file, not in the Hugging Face cache ({}), and no model of the "
        "catalogue comes from there; `cairn models` lists the catalogue",
        model, hf_cache_folder().string()));
  }
  std::vector<std::string> containing;
  for (const LibraryFile& file : catalogue) {
    if (lower(file.stem).find(lower(model)) != std::string::npos) containing.push_back(file.stem);
  }
  const std::string hint = containing.empty() || containing.size() > 8
                               ? did_you_mean(model, stems(catalogue))
                               : "; the catalogue has " + join_names(containing);
  throw InputError(fmt::format(
      "unknown model '{}'{} (a file, a catalogue name as `cairn models` lists them, or org/name in "
      "the Hugging Face cache)",
      model, hint));
}

}  // namespace cairn
