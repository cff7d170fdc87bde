#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "models/document.h"
#include "models/library.h"

// Which file a model's name stands for.

namespace cairn {

enum class ModelFileKind { kPlainGraph, kHfConfig, kModelFile };

struct FoundModel {
  Document document = {};
  ModelFileKind kind = ModelFileKind::kModelFile;
  std::string name = {};  // as reports print it
  std::string note = {};  // what the user should know of how it was found; "" for nothing
};

// What kind of model file the document is. Throws InputError for a document that is none.
FoundModel classify_model(Document document, std::string name);

FoundModel read_catalogue_model(const LibraryFile& file);

// Whether the name can only be meant as a path.
bool looks_like_a_path(const std::string& model);
// Whether find_model takes it as a path.
bool is_model_path(const std::string& model);

// A path (to a file, or a folder with a config.json), a catalogue name, org/name in the local
// Hugging Face cache, the source of a catalogue model, or a name that differs from a catalogue
// model's only in how it was trained; in this order. Throws InputError, offering near names.
FoundModel find_model(const std::string& model, const std::vector<std::filesystem::path>& folders);

}  // namespace cairn
