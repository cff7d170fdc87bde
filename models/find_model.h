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
};

// What kind of model file the document is. Throws InputError for a document that is none.
FoundModel classify_model(Document document, std::string name);

FoundModel read_catalogue_model(const LibraryFile& file);

// A path (to a file, or a folder with a config.json), a catalogue name or source, or org/name in
// the local Hugging Face cache; in this order. Throws InputError, offering the nearest names.
FoundModel find_model(const std::string& model, const std::vector<std::filesystem::path>& folders);

}  // namespace cairn
