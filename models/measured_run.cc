#include "models/measured_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "graph/error.h"
#include "models/fields.h"
#include "models/recipe_file.h"
#include "models/training_keys.h"

namespace cairn {
namespace {

namespace fs = std::filesystem;

fs::path folder_of(const Document& document) { return fs::path(document.file_name).parent_path(); }

std::string not_empty(const Fields& fields, std::string_view key, const std::string& text) {
  if (text.empty()) fields.fail_at_key(key, "expected a name, found an empty text");
  return text;
}

// {family, dims, dtype}: a model file within this one, with its places in it.
FoundModel model_in_file(const Document& document, const Node& node, Fields& fields) {
  FoundModel found{.document = {.file_name = document.file_name, .text = document.text},
                   .kind = ModelFileKind::kModelFile,
                   .name = not_empty(fields, "family", fields.text("family"))};
  Node& root = found.document.root;
  root = {.kind = NodeKind::kMapping, .position = node.position, .entries = {}};
  root.entries.push_back({.key = "model",
                          .key_position = node.position,
                          .value = {.kind = NodeKind::kScalar,
                                    .scalar = found.name,
                                    .quoted = true,
                                    .position = node.position,
                                    .entries = {}}});
  for (const Entry& entry : node.entries) {
    if (entry.key == "family" || entry.key == "dims" || entry.key == "dtype") {
      root.entries.push_back(entry);
    }
  }
  return found;
}

void read_settings(const Document& document, Fields& fields, ModelRequest& request) {
  const Node* const node = fields.find("set");
  if (node == nullptr) return;
  const std::string what = fields.what_of("set");
  const Fields mapping(document, *node, what);  // refuses what is none
  for (const Entry& entry : node->entries) {
    request.set.emplace_back(entry.key, to_text(document, entry.value, what));
  }
}

void read_model_mapping(const Document& document, const Node& node, const std::string& what,
                        MeasuredRun& run) {
  Fields fields(document, node, what);
  const std::optional<std::string> name = fields.optional_text("name");
  const std::optional<std::string> file = fields.optional_text("file");
  const bool has_family = fields.find("family") != nullptr;
  if ((name ? 1 : 0) + (file ? 1 : 0) + (has_family ? 1 : 0) != 1) {
    fields.fail("expected one of the keys 'name', 'file' and 'family'");
  }
  if (name) run.request.model = not_empty(fields, "name", *name);
  if (file) run.request.model = (folder_of(document) / not_empty(fields, "file", *file)).string();
  if (has_family) {
    fields.require("dims");
    fields.optional_text("dtype");
    run.model = model_in_file(document, node, fields);
    run.request.model = run.model->name;
  }
  read_settings(document, fields, run.request);
  for (const std::string& path : fields.optional_names("models")) {
    run.request.folders.push_back(folder_of(document) / path);
  }
  fields.refuse_unknown();
}

void read_checkpointing(const Document& document, Fields& fields, MeasuredRun& run) {
  const Node* const node = fields.find("checkpointing");
  if (node == nullptr) return;
  if (node->kind == NodeKind::kScalar) {
    run.checkpointing = fields.text("checkpointing");
    return;
  }
  Fields mapping(document, *node, fields.what_of("checkpointing"));
  run.checkpointing = mapping.text("strategy");
  if (const std::optional<std::string> extent = mapping.optional_text("extent")) {
    const std::optional<Extent> found = find_extent(*extent);
    if (!found) {
      mapping.fail_at_key("extent",
                          fmt::format("expected one of {}, found {}{}", join_names(extent_names()),
                                      in_quotes(*extent), did_you_mean(*extent, extent_names())));
    }
    run.extent = *found;
  }
  mapping.refuse_unknown();
}

// A recipe file that the knobs begin with: its strategy, and its knobs under those of the case.
Node with_base(const Document& document, const Node& recipe, const std::string& what,
               MeasuredRun& run) {
  const auto base = std::find_if(recipe.entries.begin(), recipe.entries.end(),
                                 [](const Entry& entry) { return entry.key == "base"; });
  if (base == recipe.entries.end() || base->value.kind == NodeKind::kNull) return recipe;
  std::string name = to_text(document, base->value, what + ": key 'base'");
  if (looks_like_a_path(name)) name = (folder_of(document) / name).string();
  const RecipeFile file = find_recipe(name, run.request.folders);
  apply_recipe(file, run.request);
  if (run.request.recipe.checkpointing) run.checkpointing = *run.request.recipe.checkpointing;
  if (run.request.recipe.extent) run.extent = *run.request.recipe.extent;
  Node knobs{.kind = NodeKind::kMapping, .entries = {}};
  for (const Entry& entry : file.document.root.entries) {
    const std::vector<std::string> others = {"title",         "sources", "where_available",
                                             "checkpointing", "gpus",    "notes"};
    if (std::find(others.begin(), others.end(), entry.key) == others.end()) {
      knobs.entries.push_back(entry);
    }
  }
  return merged_mapping(knobs, recipe);
}

}  // namespace

Node merged_mapping(const Node& base, const Node& changes) {
  Node merged = changes;
  for (const Entry& entry : base.entries) {
    const bool is_changed =
        std::any_of(changes.entries.begin(), changes.entries.end(),
                    [&](const Entry& change) { return change.key == entry.key; });
    if (!is_changed) merged.entries.push_back(entry);
  }
  return merged;
}

MeasuredRun read_measured_run(const Document& document, const Node& model, const Node* recipe,
                              const std::string& what) {
  MeasuredRun run;
  const std::string what_model = what + ": key 'model'";
  if (model.kind == NodeKind::kScalar) {
    run.request.model = to_text(document, model, what_model);
  } else {
    read_model_mapping(document, model, what_model, run);
  }
  if (recipe == nullptr) return run;
  const std::string what_recipe = what + ": key 'recipe'";
  const Node knobs = with_base(document, *recipe, what_recipe, run);
  Fields fields(document, knobs, what_recipe);
  fields.optional_text("base");
  read_training_keys(document, fields, run.request);
  run.request.batch = fields.optional_count("batch").value_or(1);
  run.request.tokens = fields.optional_count("tokens");
  run.request.vocab = fields.optional_count("vocab");
  read_checkpointing(document, fields, run);
  fields.refuse_unknown();
  return run;
}

}  // namespace cairn
