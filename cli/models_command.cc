#include <CLI/CLI.hpp>
#include <memory>

#include "cli/command.h"
#include "cli/json.h"
#include "cli/model_options.h"
#include "cli/output.h"
#include "cli/table.h"
#include "cli/units.h"
#include "models/library.h"
#include "models/load_model.h"
#include "models/model_names.h"

namespace cairn {
namespace {

struct ModelsOptions {
  std::string part = {};
  std::vector<std::string> folders = {};
  bool json = false;
};

std::string models_text(const std::vector<CatalogueEntry>& entries) {
  Table table{.columns = {{"model"}, {"parameters", Align::kRight}, {"family"}, {"source"}}};
  for (const CatalogueEntry& entry : entries) {
    table.rows.push_back(
        {entry.name, grouped_text(entry.parameter_count), entry.family, entry.source});
  }
  return table_text(table);
}

std::string models_json(const std::vector<CatalogueEntry>& entries) {
  Json document = new_document();
  document["models"] = Json::array();
  for (const CatalogueEntry& entry : entries) {
    document["models"].push_back({{"name", entry.name},
                                  {"parameters", entry.parameter_count},
                                  {"active_parameters", entry.active_parameter_count},
                                  {"family", entry.family},
                                  {"source", entry.source}});
  }
  return json_text(document);
}

ExitCode run_models(const ModelsOptions& options) {
  const std::vector<CatalogueEntry> entries =
      list_catalogue(options.part, folder_paths(options.folders));
  write_output(options.json ? models_json(entries) : models_text(entries));
  if (entries.empty()) {
    const std::vector<LibraryFile> catalogue =
        library_files("catalogue", folder_paths(options.folders));
    write_error("no model has '" + options.part + "' in its name, source or family" +
                offer_models(named_models(catalogue), options.part));
  }
  return ExitCode::kDone;
}

}  // namespace

Command add_models_command(CLI::App& app) {
  const auto options = std::make_shared<ModelsOptions>();
  CLI::App* const command = app.add_subcommand("models", "The models Cairn knows by name");
  command->add_option("PART", options->part, "List those with this in their name, source or family")
      ->type_name("");
  add_folder_option(*command, options->folders);
  add_json_option(*command, options->json);
  command->footer(
      "Example: cairn models llama\n"
      "Other models of these families are read from their config.json:\n"
      "see cairn fit --help.");
  return {.app = command, .run = [options] { return run_models(*options); }};
}

}  // namespace cairn
