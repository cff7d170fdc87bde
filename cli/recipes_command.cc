#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>

#include "cli/command.h"
#include "cli/json.h"
#include "cli/model_options.h"
#include "cli/output.h"
#include "cli/table.h"
#include "graph/error.h"
#include "models/model_names.h"
#include "models/recipe_file.h"

namespace cairn {
namespace {

struct RecipesOptions {
  std::string part = {};
  std::optional<std::string> shown = {};
  std::vector<std::string> folders = {};
  bool json = false;
};

std::string recipes_text(const std::vector<RecipeFile>& recipes) {
  Table table{.columns = {{"recipe"}, {"how it trains"}}};
  for (const RecipeFile& recipe : recipes) {
    table.rows.push_back(
        {recipe.name,
         recipe.title + (recipe.training.recipe.needs_several_gpus ? "; needs several GPUs" : "")});
  }
  return table_text(table);
}

std::string recipes_json(const std::vector<RecipeFile>& recipes) {
  Json document = new_document();
  document["recipes"] = Json::array();
  for (const RecipeFile& recipe : recipes) {
    document["recipes"].push_back(
        {{"name", recipe.name},
         {"title", recipe.title},
         {"needs_several_gpus", recipe.training.recipe.needs_several_gpus},
         {"notes", recipe.training.recipe.notes},
         {"sources", recipe.sources}});
  }
  return json_text(document);
}

ExitCode show_recipe(const RecipesOptions& options) {
  if (!options.part.empty()) {
    throw InputError(options.part + " and --show: expected one of them, found both");
  }
  if (options.json) throw InputError("--show and --json: expected one of them, found both");
  write_output(find_recipe(*options.shown, folder_paths(options.folders)).document.text);
  return ExitCode::kDone;
}

ExitCode run_recipes(const RecipesOptions& options) {
  if (options.shown) return show_recipe(options);
  std::vector<RecipeFile> recipes = list_recipes(folder_paths(options.folders));
  std::erase_if(recipes, [&](const RecipeFile& recipe) {
    return !is_part_of_name(options.part, recipe.name) &&
           !is_part_of_name(options.part, recipe.title);
  });
  write_output(options.json ? recipes_json(recipes) : recipes_text(recipes));
  if (recipes.empty()) write_error("no recipe has '" + options.part + "' in its name or title");
  return ExitCode::kDone;
}

}  // namespace

Command add_recipes_command(CLI::App& app) {
  const auto options = std::make_shared<RecipesOptions>();
  CLI::App* const command = app.add_subcommand("recipes", "How trainers train, by name");
  command->add_option("PART", options->part, "List those with this in their name or title")
      ->type_name("");
  command->add_option("--show", options->shown, "Print this one's file, to copy and change")
      ->type_name("NAME|FILE");
  add_folder_option(*command, options->folders);
  add_json_option(*command, options->json);
  command->footer("Example: cairn recipes --show qlora > mine.yaml");
  return {.app = command, .run = [options] { return run_recipes(*options); }};
}

}  // namespace cairn
