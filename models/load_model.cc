#include "models/load_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <set>

#include "graph/error.h"
#include "models/dims.h"
#include "models/fields.h"
#include "models/find_model.h"
#include "models/instantiate.h"
#include "models/library.h"
#include "models/link_layers.h"
#include "models/optimizer.h"
#include "models/per_layer.h"
#include "models/plain_graph.h"

namespace cairn {
namespace {

constexpr std::int64_t kDefaultTokens = 2048;

const Node* find_key(const Node& mapping, std::string_view key) {
  for (const Entry& entry : mapping.entries) {
    if (entry.key == key && entry.value.kind != NodeKind::kNull) return &entry.value;
  }
  return nullptr;
}

void refuse_overrides_of_plain_graph(const ModelRequest& request) {
  const auto refuse = [](const std::string& option) {
    throw InputError(option + " has no meaning for a plain graph: its numbers are fixed");
  };
  if (request.batch != 1) refuse("--batch");
  if (request.tokens) refuse("--tokens");
  if (request.vocab) refuse("--vocab");
  if (request.precision) refuse("--precision");
  if (!request.set.empty()) refuse("--set");
  if (!request.attention.empty()) refuse("--attention");
}

LoadedModel load_plain_graph(const ModelRequest& request, const FoundModel& found) {
  refuse_overrides_of_plain_graph(request);
  LoadedModel model{.name = found.name};
  model.recipe.optimizer = request.optimizer;
  model.graph = read_plain_graph(found.document, optimizer_state_count(request.optimizer));
  return model;
}

std::vector<Document> included_sections(const Document& document, const ModelRequest& request) {
  std::vector<Document> sections;
  const std::vector<LibraryFile> files = library_files("sections", request.folders);
  for (const std::string& name : family_includes(document)) {
    const LibraryFile* const file = find_library_file(files, name);
    if (file == nullptr) {
      fail_at(document, document.root.position,
              fmt::format("key 'include': there are no sections {}{}", in_quotes(name),
                          did_you_mean(name, stems(files))));
    }
    sections.push_back(read_library_file(*file));
    Fields fields(sections.back(), sections.back().root, "sections");
    check_own_name(*file, sections.back(), fields.text("sections"));
  }
  return sections;
}

Family read_family(const LibraryFile& file, Document document, const ModelRequest& request) {
  std::vector<Document> sections = included_sections(document, request);
  Family family = parse_family(std::move(document), std::move(sections));
  check_own_name(file, *family.document, family.name);
  return family;
}

Family family_named(const Document& document, const Node& name, const ModelRequest& request) {
  const std::vector<LibraryFile> files = library_files("families", request.folders);
  if (const LibraryFile* file = find_library_file(files, name.scalar)) {
    return read_family(*file, read_library_file(*file), request);
  }
  fail_at(document, name.position,
          fmt::format("unknown family '{}'{}; known: {}", name.scalar,
                      did_you_mean(name.scalar, stems(files)), join_names(stems(files))));
}

std::optional<Family> family_of_model_type(const std::string& model_type,
                                           const ModelRequest& request,
                                           std::vector<std::string>& known_types) {
  for (const LibraryFile& file : library_files("families", request.folders)) {
    Document document = read_library_file(file);
    const std::vector<std::string> types = family_model_types(document);
    known_types.insert(known_types.end(), types.begin(), types.end());
    if (std::find(types.begin(), types.end(), model_type) != types.end()) {
      return read_family(file, std::move(document), request);
    }
  }
  return std::nullopt;
}

// "bfloat16" or "torch.bfloat16", as configs spell it.
std::optional<DataType> data_type_of_config(std::string text) {
  if (text.starts_with("torch.")) text.erase(0, 6);
  if (text == "bfloat16" || text == "bf16") return DataType::kBFloat16;
  if (text == "float16" || text == "half" || text == "fp16") return DataType::kFloat16;
  if (text == "float32" || text == "float" || text == "fp32") return DataType::kFloat32;
  return std::nullopt;
}

// The family, and where its dims' values are, of one model file or config.
struct ModelNumbers {
  Family family = {};
  std::vector<DimSource> sources = {};
  std::optional<std::string> data_type = {};  // the config's own
  std::vector<std::string> notes = {};
};

ModelNumbers numbers_of_model_file(const FoundModel& found, const ModelRequest& request) {
  Fields fields(found.document, found.document.root, "a model");
  fields.text("model");
  fields.optional_text("source");
  fields.text("family");
  ModelNumbers numbers{.family = family_named(found.document, fields.require("family"), request)};
  const Node& dims = fields.require("dims");
  if (dims.kind != NodeKind::kMapping) {
    fields.fail_at_key("dims", "expected a mapping, found " + describe(dims));
  }
  numbers.data_type = fields.optional_text("dtype");
  if (numbers.data_type && !data_type_of_config(*numbers.data_type)) {
    fail_at(found.document, fields.require("dtype").position,
            fmt::format("{}: expected one of bf16, fp16, fp32 (or bfloat16, float16, float32), "
                        "found {}",
                        fields.what_of("dtype"), in_quotes(*numbers.data_type)));
  }
  fields.refuse_unknown();
  numbers.sources = {{.document = &found.document, .mapping = &dims, .by_dim_name = true}};
  return numbers;
}

ModelNumbers numbers_of_hf_config(const FoundModel& found, const ModelRequest& request) {
  const Document& document = found.document;
  const Node* text_config = find_key(document.root, "text_config");
  if (text_config != nullptr && text_config->kind != NodeKind::kMapping) {
    fail_at(document, text_config->position,
            "key 'text_config': expected a mapping, found " + describe(*text_config));
  }
  std::vector<std::string> known;
  std::vector<const Node*> type_nodes = {find_key(document.root, "model_type")};
  if (text_config != nullptr) type_nodes.push_back(find_key(*text_config, "model_type"));
  for (const Node* type_node : type_nodes) {
    if (type_node == nullptr) continue;
    const std::string type = to_text(document, *type_node, "key 'model_type'");
    known.clear();
    std::optional<Family> family = family_of_model_type(type, request, known);
    if (!family) continue;
    ModelNumbers numbers{.family = std::move(*family)};
    numbers.sources.push_back({.document = &document, .mapping = &document.root});
    if (text_config != nullptr) {
      numbers.sources.insert(numbers.sources.begin(),
                             {.document = &document, .mapping = text_config});
      numbers.notes.emplace_back("only the text part (text_config) is counted");
    }
    for (const DimSource& source : numbers.sources) {
      for (const std::string_view key : {"dtype", "torch_dtype"}) {
        const Node* node = find_key(*source.mapping, key);
        if (node != nullptr && !numbers.data_type) {
          numbers.data_type = to_text(document, *node, fmt::format("key '{}'", key));
        }
      }
    }
    if (find_key(document.root, "quantization_config") != nullptr) {
      numbers.notes.emplace_back("quantization_config is not modelled: weights are not quantised");
    }
    return numbers;
  }
  const Node* type = type_nodes[0] != nullptr ? type_nodes[0] : type_nodes.back();
  if (type == nullptr) fail_at(document, document.root.position, "missing key 'model_type'");
  std::sort(known.begin(), known.end());
  fail_at(
      document, type->position,
      fmt::format("unknown model_type {}{}; known: {} (a family file adds one: see "
                  "CONTRIBUTING.md)",
                  in_quotes(type->scalar), did_you_mean(type->scalar, known), join_names(known)));
}

std::vector<DimOverride> overrides_of(const ModelRequest& request) {
  std::vector<DimOverride> overrides;
  std::set<std::string> seen;
  const auto add = [&](std::string name, std::string value, std::string option) {
    if (name == "batch" || name == "tokens") {
      throw InputError(fmt::format("{}: use --{}", option, name));
    }
    if (!seen.insert(name).second) {
      throw InputError(fmt::format("{}: dim '{}' is set twice", option, name));
    }
    overrides.push_back({std::move(name), std::move(value), std::move(option)});
  };
  for (const auto& [name, value] : request.set) add(name, value, "--set " + name);
  if (request.vocab) add("vocab", std::to_string(*request.vocab), "--vocab");
  return overrides;
}

void check_positive(std::int64_t value, const char* option) {
  if (value >= 1) return;
  throw InputError(fmt::format("{}: expected a positive integer, found {}", option, value));
}

std::int64_t default_tokens(const Family& family, const std::vector<ResolvedDim>& dims) {
  for (const ResolvedDim& dim : dims) {
    if (dim.name == family.token_limit_dim) return std::min(kDefaultTokens, dim.value.integer);
  }
  return kDefaultTokens;
}

void add_sample_dims(const Family& family, const ModelRequest& request,
                     std::vector<ResolvedDim>& dims) {
  const auto add = [&](const char* name, std::int64_t value, bool is_given) {
    const std::string option = std::string("--") + name;
    check_positive(value, option.c_str());
    dims.push_back({.name = name,
                    .value = integer_value(value),
                    .origin = is_given ? DimOrigin::kOption : DimOrigin::kDefault,
                    .origin_text = is_given ? option : std::to_string(value)});
  };
  add("batch", request.batch, request.batch != 1);
  if (family.samples == Samples::kTokens) {
    add("tokens", request.tokens.value_or(default_tokens(family, dims)),
        request.tokens.has_value());
  } else if (request.tokens) {
    throw InputError(fmt::format(
        "--tokens has no meaning for family '{}': its samples are images (--set image=PIXELS)",
        family.name));
  }
}

LoadedModel load_family_model(const ModelRequest& request, const FoundModel& found) {
  ModelNumbers numbers = found.kind == ModelFileKind::kModelFile
                             ? numbers_of_model_file(found, request)
                             : numbers_of_hf_config(found, request);
  const Family& family = numbers.family;
  LoadedModel model{.name = found.name, .family = family.name};
  model.dims = resolve_dims(family, numbers.sources, overrides_of(request));
  const std::vector<PerLayerValues> per_layer = resolve_per_layer(family, numbers.sources);
  add_sample_dims(family, request, model.dims);
  const std::optional<DataType> own =
      numbers.data_type ? data_type_of_config(*numbers.data_type) : std::nullopt;
  model.recipe = {.precision = request.precision.value_or(own.value_or(DataType::kBFloat16)),
                  .optimizer = request.optimizer,
                  .attention = request.attention};
  model.attention = attention_choice(family, model.recipe);
  model.notes = std::move(numbers.notes);
  if (numbers.data_type && !own && !request.precision) {
    model.notes.push_back(
        fmt::format("the config's dtype '{}' is not known: bf16 is taken", *numbers.data_type));
  }
  if (model.recipe.precision == DataType::kFloat32 &&
      (model.attention == "sdpa" || model.attention == "flash")) {
    model.notes.push_back(fmt::format(
        "CUDA's flash kernel has no fp32: {} attention runs another kernel there, with other "
        "workspaces",
        model.attention));
  }
  Scope scope;
  for (const ResolvedDim& dim : model.dims) scope.values[dim.name] = dim.value;
  scope.values["expert_imbalance"] = number_value(model.recipe.expert_imbalance);
  scope.values["expert_capacity"] = number_value(model.recipe.expert_capacity);
  for (std::string& note : family_notes(family, scope)) model.notes.push_back(std::move(note));
  if (const std::optional<UnmetRequirement> unmet = unmet_requirement(family, scope)) {
    const std::optional<DimPlace> place = place_of_dims(family, numbers.sources, unmet->dims);
    if (place) fail_at(*place->document, place->position, unmet->text);
  }
  const std::map<std::string, Layer> layers = link_layers(family, request.folders);
  model.graph = instantiate({.family = family,
                             .layers = layers,
                             .dims = scope,
                             .per_layer = per_layer,
                             .recipe = model.recipe,
                             .model_name = model.name});
  return model;
}

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

}  // namespace

LoadedModel load_found_model(const ModelRequest& request, const FoundModel& found) {
  LoadedModel model = found.kind == ModelFileKind::kPlainGraph ? load_plain_graph(request, found)
                                                               : load_family_model(request, found);
  if (!model.graph.tensor(model.graph.loss).has_gradient) {
    model.notes.emplace_back(
        "nothing that the loss depends on requires a gradient: there is no backward pass");
  }
  return model;
}

LoadedModel load_model(const ModelRequest& request) {
  return load_found_model(request, find_model(request.model, request.folders));
}

std::vector<CatalogueEntry> list_catalogue(const std::string& part,
                                           const std::vector<std::filesystem::path>& folders) {
  std::vector<CatalogueEntry> entries;
  const std::string wanted = lower(part);
  for (const LibraryFile& file : library_files("catalogue", folders)) {
    const FoundModel found = read_catalogue_model(file);
    Fields fields(found.document, found.document.root, "a model");
    const std::string source = fields.optional_text("source").value_or("");
    if (lower(file.stem).find(wanted) == std::string::npos &&
        lower(source).find(wanted) == std::string::npos) {
      continue;
    }
    const LoadedModel model = load_found_model({.tokens = 1, .folders = folders}, found);
    entries.push_back({.name = model.name,
                       .family = model.family,
                       .source = source,
                       .parameter_count = parameter_count(model.graph)});
  }
  return entries;
}

}  // namespace cairn
