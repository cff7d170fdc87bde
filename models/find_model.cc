#include "models/find_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <system_error>

#include "graph/error.h"
#include "models/chain_file.h"
#include "models/hf_cache.h"
#include "models/library.h"
#include "models/model_names.h"
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
  const std::string folder =
      fs::absolute(path).lexically_normal().parent_path().filename().string();
  return folder.empty() ? stem : folder;
}

// The catalogue model whose `source` is this org/name.
const NamedModel* find_by_source(const std::vector<NamedModel>& models, const std::string& source) {
  const auto found = std::find_if(models.begin(), models.end(), [&](const NamedModel& model) {
    return lower_case(model.source) == lower_case(source);
  });
  return found == models.end() ? nullptr : &*found;
}

// The catalogue model of that name, whatever the case of its letters.
const LibraryFile* find_by_name(const std::vector<LibraryFile>& catalogue,
                                const std::string& name) {
  const auto found = std::find_if(catalogue.begin(), catalogue.end(), [&](const LibraryFile& file) {
    return lower_case(file.stem) == lower_case(name);
  });
  return found == catalogue.end() ? nullptr : &*found;
}

FoundModel read_under_another_name(const NamedModel& model, const std::string& name) {
  FoundModel found = read_catalogue_model(*model.file);
  const bool says_source = model.source.find('/') != std::string::npos;
  found.note =
      fmt::format("'{}' is taken by its name for the catalogue's {}{}", name, model.file->stem,
                  says_source ? fmt::format(", with the sizes of {}", model.source) : "");
  return found;
}

[[noreturn]] void refuse_unknown(const std::string& model, const std::vector<NamedModel>& models) {
  std::error_code error;
  if (fs::is_directory(model, error)) {
    throw InputError(model + ": expected a folder with a config.json, found none in it");
  }
  const std::string offer = offer_models(models, model);
  if (model.find('/') != std::string::npos) {
    throw InputError(fmt::format(
        "unknown model '{}': no such file, not in the Hugging Face cache ({}), and no model of the "
        "catalogue comes from there or has that name{}; `cairn models` lists the catalogue",
        model, hf_cache_folder().string(), offer));
  }
  throw InputError(fmt::format(
      "unknown model '{}'{} (a file, a catalogue name as `cairn models` lists them, or org/name in "
      "the Hugging Face cache)",
      model, offer));
}

}  // namespace

bool looks_like_a_path(const std::string& model) {
  return model.ends_with(".yaml") || model.ends_with(".yml") || model.ends_with(".json") ||
         model.starts_with("/") || model.starts_with("./") || model.starts_with("../") ||
         model.starts_with("~");
}

bool is_model_path(const std::string& model) {
  std::error_code error;
  return looks_like_a_path(model) || fs::is_regular_file(model, error) ||
         fs::exists(fs::path(model) / "config.json", error);
}

FoundModel classify_model(Document document, std::string name) {
  if (document.root.kind != NodeKind::kMapping) {
    fail_at(document, document.root.position,
            "expected a model (a mapping), found " + describe(document.root));
  }
  if (has_key(document, "cairn_plan")) {
    fail_at(document, document.root.position,
            "this is a plan, which `cairn simulate` replays: give the model that it is for");
  }
  FoundModel found{.name = std::move(name)};
  if (is_plain_graph(document)) {
    found.kind = ModelFileKind::kPlainGraph;
  } else if (has_key(document, "model")) {
    found.kind = ModelFileKind::kModelFile;
  } else if (has_key(document, "model_type") || has_key(document, "text_config") ||
             has_key(document, "architectures")) {
    found.kind = ModelFileKind::kHfConfig;
  } else if (is_chain_file(document)) {
    fail_at(document, document.root.position,
            "this is a chain file: `cairn import` makes a plain graph of it, which is a model");
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
    refuse_unknown(model, {});
  }
  if (looks_like_a_path(model) || fs::is_regular_file(model, error)) {
    return classify_model(read_document(model), name_of_path(model));
  }
  const std::vector<LibraryFile> catalogue = library_files("catalogue", folders);
  if (const LibraryFile* file = find_by_name(catalogue, model)) {
    return read_catalogue_model(*file);
  }
  const std::vector<NamedModel> models = named_models(catalogue);
  if (model.find('/') != std::string::npos) {
    if (const std::optional<fs::path> cached = find_in_hf_cache(model)) {
      return classify_model(read_document(*cached), model);
    }
    if (const NamedModel* found = find_by_source(models, model)) {
      return read_catalogue_model(*found->file);
    }
  }
  const NamedModel* const found = find_by_plain_name(models, model);
  if (found != nullptr && !fs::is_directory(model, error)) {
    return read_under_another_name(*found, model);
  }
  refuse_unknown(model, models);
}

}  // namespace cairn
