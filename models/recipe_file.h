#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "models/document.h"
#include "models/model_request.h"

// Recipe files: how a trainer trains, as one choice. docs/formats.md has the form.

namespace cairn {

struct RecipeFile {
  std::string name = {};  // the file's, without .yaml
  std::string title = {};
  std::vector<std::string> sources = {};
  ModelRequest training = {};       // the keys of models/training_keys.h, and `recipe`
  Position strategy_position = {};  // of training.recipe.checkpointing
  Document document = {};
};

// Throws InputError at the place. Whether there is a strategy of that name is not looked at.
RecipeFile read_recipe(Document document, std::string name);

// A built-in one, one of a folder (DIR/recipes/*.yaml), or a path. Throws InputError, offering near
// names.
RecipeFile find_recipe(const std::string& recipe,
                       const std::vector<std::filesystem::path>& folders);

// All that have a name, by name.
std::vector<RecipeFile> list_recipes(const std::vector<std::filesystem::path>& folders);

// How the request's model is trained is what the recipe says, and nothing of what it said before.
void apply_recipe(const RecipeFile& recipe, ModelRequest& request);

}  // namespace cairn
