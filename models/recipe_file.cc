#include "models/recipe_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <system_error>
#include <utility>

#include "graph/error.h"
#include "models/fields.h"
#include "models/find_model.h"
#include "models/library.h"
#include "models/training_keys.h"

namespace cairn {
namespace {

constexpr std::string_view kWhat = "a recipe";

void read_checkpointing(const Document& document, const Node& node, const std::string& what,
                        RecipeFile& file) {
  Fields fields(document, node, what);
  RecipeInUse& recipe = file.training.recipe;
  recipe.checkpointing = fields.text("strategy");
  file.strategy_position = fields.require("strategy").position;
  if (const auto extent = fields.optional_one_of("extent", extent_names())) {
    recipe.extent = find_extent(*extent);
  }
  fields.refuse_unknown();
}

void read_where_available(const Document& document, const Node& node, const std::string& what,
                          ModelRequest& training) {
  Fields fields(document, node, what);
  for (const std::string_view option : kImplementationOptions) {
    const std::optional<std::string> choice = fields.optional_text(option);
    if (!choice) continue;
    if (choice->empty()) fields.fail_at_key(option, "expected a name, found an empty text");
    if (training.implementations.contains(std::string(option))) {
      fields.fail_at_key(option, fmt::format("expected it here or in the recipe's own key '{}', "
                                             "found both",
                                             option));
    }
    training.recipe.where_available[std::string(option)] = *choice;
  }
  fields.refuse_unknown();
}

// What one step cannot be: at the key of the file that says the second of the two.
void check_contradictions(Fields& fields, const TrainingStep& step) {
  const std::optional<Contradiction> both = contradiction_in(step);
  if (!both) return;
  const auto key_of = [](const std::string& option) {
    std::string key = option.substr(0, option.find(' '));
    std::replace(key.begin(), key.end(), '-', '_');
    return key;
  };
  fields.fail_at_key(key_of(both->second),
                     fmt::format("it contradicts key '{}': {}", key_of(both->first), both->reason));
}

bool is_path(const std::string& recipe) {
  std::error_code error;
  return looks_like_a_path(recipe) || std::filesystem::is_regular_file(recipe, error);
}

}  // namespace

RecipeFile read_recipe(Document document, std::string name) {
  RecipeFile file{.name = std::move(name), .document = std::move(document)};
  const Document& text = file.document;
  ModelRequest& training = file.training;
  training.recipe.name = file.name;
  Fields fields(text, text.root, std::string(kWhat));
  file.title = fields.text("title");
  file.sources = fields.optional_names("sources");
  read_training_keys(text, fields, training);
  training.recipe.library = training.library;
  for (const auto& [option, choice] : training.implementations) {
    training.recipe.implementations.push_back(option);
  }
  if (const Node* const node = fields.find("where_available")) {
    read_where_available(text, *node, fields.what_of("where_available"), training);
  }
  if (const Node* const node = fields.find("checkpointing")) {
    read_checkpointing(text, *node, fields.what_of("checkpointing"), file);
  }
  training.recipe.needs_several_gpus =
      fields.optional_one_of("gpus", {"one", "several"}) == "several";
  if (training.recipe.needs_several_gpus) {
    training.recipe.notes.push_back(
        fmt::format("recipe {} needs several GPUs; counted on one", in_quotes(file.name)));
  }
  for (std::string& note : fields.optional_names("notes")) {
    training.recipe.notes.push_back(std::move(note));
  }
  fields.refuse_unknown();
  check_contradictions(fields, training.step);
  return file;
}

RecipeFile find_recipe(const std::string& recipe,
                       const std::vector<std::filesystem::path>& folders) {
  const std::vector<LibraryFile> files = library_files("recipes", folders);
  if (const LibraryFile* const file = find_library_file(files, recipe)) {
    return read_recipe(read_library_file(*file), file->stem);
  }
  if (is_path(recipe)) {
    return read_recipe(read_document(recipe), std::filesystem::path(recipe).stem().string());
  }
  throw InputError(
      fmt::format("--recipe: expected a recipe (see cairn recipes) or a file, found "
                  "{}{}",
                  in_quotes(recipe), did_you_mean(recipe, stems(files))));
}

std::vector<RecipeFile> list_recipes(const std::vector<std::filesystem::path>& folders) {
  std::vector<RecipeFile> recipes;
  for (const LibraryFile& file : library_files("recipes", folders)) {
    recipes.push_back(read_recipe(read_library_file(file), file.stem));
  }
  return recipes;
}

void apply_recipe(const RecipeFile& recipe, ModelRequest& request) {
  ModelRequest trained = recipe.training;
  trained.model = std::move(request.model);
  trained.batch = request.batch;
  trained.tokens = request.tokens;
  trained.vocab = request.vocab;
  trained.set = std::move(request.set);
  trained.expert_imbalance = request.expert_imbalance;
  trained.expert_capacity = request.expert_capacity;
  trained.text_part_only = request.text_part_only;
  trained.folders = std::move(request.folders);
  trained.is_checkpointed = request.is_checkpointed;
  request = std::move(trained);
}

}  // namespace cairn
