#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "graph/error.h"
#include "models/fields.h"
#include "models/library.h"
#include "models/model_numbers.h"

// Which family reads a config.json, and what in it no family counts.

namespace cairn {
namespace {

// A key that stands for a part of the model, and what that part is: "a vision encoder".
struct PartKey {
  std::string key = {};
  std::string what = {};
};

struct PartKeys {
  std::vector<PartKey> towers = {};  // beside the text model
  std::vector<PartKey> layers = {};  // within it
};

struct UncountedPart {
  std::string key = {};
  std::string what = {};
  Position position = {};  // of the key in the config
};

void read_section(const Document& document, Fields& fields, std::string_view name,
                  std::vector<PartKey>& keys) {
  const Node* const section = fields.find(name);
  if (section == nullptr) return;
  const Fields listed(document, *section, std::string(name));
  for (const Entry& entry : section->entries) {
    keys.push_back(
        {.key = entry.key, .what = to_text(document, entry.value, listed.what_of(entry.key))});
  }
}

PartKeys read_part_keys(const Folders& folders) {
  PartKeys keys;
  for (const LibraryFile& file : library_files("uncounted", folders)) {
    const Document document = read_library_file(file);
    Fields fields(document, document.root, "uncounted parts");
    check_own_name(file, document, fields.text("uncounted"));
    read_section(document, fields, "towers", keys.towers);
    read_section(document, fields, "layers", keys.layers);
    fields.refuse_unknown();
  }
  return keys;
}

// The parts whose keys the mapping has.
std::vector<UncountedPart> parts_in(const Node& mapping, const std::vector<PartKey>& keys) {
  std::vector<UncountedPart> parts;
  for (const PartKey& part : keys) {
    for (const Entry& entry : mapping.entries) {
      if (entry.key != part.key || entry.value.kind == NodeKind::kNull) continue;
      parts.push_back({.key = part.key, .what = part.what, .position = entry.key_position});
    }
  }
  return parts;
}

// "a vision encoder (key 'vision_config') and an audio encoder (key 'audio_config')"
std::string parts_text(const std::vector<UncountedPart>& parts) {
  std::string text;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (i > 0) text += i + 1 == parts.size() ? " and " : ", ";
    text += fmt::format("{} (key '{}')", parts[i].what, parts[i].key);
  }
  return text;
}

const Node* find_value(const Node& mapping, std::string_view key) {
  for (const Entry& entry : mapping.entries) {
    if (entry.key == key && entry.value.kind != NodeKind::kNull) return &entry.value;
  }
  return nullptr;
}

std::string known_types_text(const std::string& type, const Folders& folders) {
  const std::vector<std::string> known = known_model_types(folders);
  return fmt::format("{}; known: {} (a family file adds one: see CONTRIBUTING.md)",
                     did_you_mean(type, known), join_names(known));
}

Family family_of_type(const Document& document, const Node& mapping, const PartKeys& keys,
                      const Folders& folders) {
  const Node* node = find_value(mapping, "model_type");
  if (node == nullptr) node = find_value(document.root, "model_type");
  if (node == nullptr) fail_at(document, mapping.position, "missing key 'model_type'");
  const std::string type = to_text(document, *node, "key 'model_type'");
  std::optional<Family> family = family_of_model_type(type, folders);
  const std::vector<UncountedPart> layers = parts_in(mapping, keys.layers);
  if (!layers.empty()) {
    fail_at(document, layers[0].position,
            fmt::format("model_type {} has {}, which no family counts", in_quotes(type),
                        parts_text(layers)));
  }
  if (family) return std::move(*family);
  const std::vector<UncountedPart> towers = parts_in(mapping, keys.towers);
  if (!towers.empty()) {
    fail_at(document, node->position,
            fmt::format("unknown model_type {}, with {}, which no family counts, and without a "
                        "text_config to take alone",
                        in_quotes(type), parts_text(towers)));
  }
  fail_at(document, node->position,
          fmt::format("unknown model_type {}{}", in_quotes(type), known_types_text(type, folders)));
}

// Refuses to count a model's text part as if it were the whole.
[[noreturn]] void refuse_half(const Document& document, const Node& text_config,
                              const std::vector<UncountedPart>& towers) {
  const Node* const type = find_value(document.root, "model_type");
  const Node* const text_type = find_value(text_config, "model_type");
  std::string text = "the model";
  if (type != nullptr && type->kind == NodeKind::kScalar) {
    text = "model_type " + in_quotes(type->scalar);
  }
  text += towers.empty() ? " has more parts than its text_config" : " has " + parts_text(towers);
  text += ", which no family counts; --part text takes its text_config";
  if (text_type != nullptr && text_type->kind == NodeKind::kScalar) {
    text += fmt::format(", model_type {},", in_quotes(text_type->scalar));
  }
  fail_at(document, type == nullptr ? document.root.position : type->position, text + " alone");
}

// A model with another head than those the family counts is another model.
void check_architectures(const DimSource& source, const Family& family) {
  const Node* const node = find_value(*source.mapping, "architectures");
  if (node == nullptr || family.architectures.empty()) return;
  const std::vector<std::string> found = to_names(*source.document, *node, "key 'architectures'");
  const bool is_counted =
      found.empty() || std::any_of(found.begin(), found.end(), [&](const std::string& name) {
        return std::find(family.architectures.begin(), family.architectures.end(), name) !=
               family.architectures.end();
      });
  if (is_counted) return;
  fail_at(
      *source.document, node->position,
      fmt::format("key 'architectures': family '{}' counts {}, found {}; without the key, {} is "
                  "taken",
                  family.name, join_names(family.architectures), join_names(found),
                  family.architectures[0]));
}

void read_data_type(const DimSource& source, ModelNumbers& numbers) {
  for (const std::string_view key : {"dtype", "torch_dtype"}) {
    const Node* const node = find_value(*source.mapping, key);
    if (node == nullptr || numbers.data_type) continue;
    numbers.data_type = to_text(*source.document, *node, fmt::format("key '{}'", key));
  }
}

}  // namespace

ModelNumbers numbers_of_hf_config(const FoundModel& found, const Folders& folders,
                                  bool text_part_only) {
  const Document& document = found.document;
  const Node& root = document.root;
  const Node* const text_config = find_value(root, "text_config");
  if (text_config != nullptr && text_config->kind != NodeKind::kMapping) {
    fail_at(document, text_config->position,
            "key 'text_config': expected a mapping, found " + describe(*text_config));
  }
  const PartKeys keys = read_part_keys(folders);
  const std::vector<UncountedPart> towers = parts_in(root, keys.towers);
  if (text_config != nullptr && !text_part_only) refuse_half(document, *text_config, towers);
  ModelNumbers numbers{.family = family_of_type(
                           document, text_config == nullptr ? root : *text_config, keys, folders)};
  if (text_config == nullptr && !towers.empty()) {
    fail_at(document, towers[0].position,
            fmt::format("the model has {}, which family '{}' does not count", parts_text(towers),
                        numbers.family.name));
  }
  if (text_config != nullptr) {
    numbers.sources.push_back({.document = &document, .mapping = text_config});
    numbers.notes.push_back(towers.empty()
                                ? "only the text part (text_config) is counted"
                                : fmt::format("only the text part (text_config) is counted, not {}",
                                              parts_text(towers)));
  }
  numbers.sources.push_back({.document = &document, .mapping = &root});
  check_architectures(numbers.sources[0], numbers.family);
  for (const DimSource& source : numbers.sources) read_data_type(source, numbers);
  if (find_value(root, "quantization_config") != nullptr) {
    numbers.notes.emplace_back(
        "quantization_config is not modelled: --quantize says how weights are stored");
  }
  return numbers;
}

}  // namespace cairn
