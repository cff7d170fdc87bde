#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "graph/graph.h"
#include "graph/recipe.h"
#include "models/dims.h"
#include "models/find_model.h"
#include "models/model_request.h"

// From what the user typed to a concrete Graph: finds the model, reads it, applies the dims that
// the command line sets, and runs the passes.

namespace cairn {

struct LoadedModel {
  Graph graph = {};
  std::string name = {};                    // as reports print it: "llama-3.1-8b"
  std::string family = {};                  // "" for a plain graph
  std::string library = {};                 // whose code the family is: "hf"; "": not said
  std::vector<ResolvedDim> dims = {};       // in the family's order, then batch, and tokens if any
  std::vector<ResolvedDim> per_layer = {};  // without values: these differ from layer to layer
  std::string attention = {};  // the implementation taken; "" where the family has none
  std::map<std::string, std::string> implementations = {};  // by option, as taken
  std::vector<std::string> losses_with_the_head = {};  // choices of loss without a tensor of logits
  Recipe recipe = {};
  std::string recipe_name = {};         // of the recipe file that it began with; "" for none
  std::vector<std::string> notes = {};  // what the reader wants the user to know, one line each
};

// Throws InputError.
LoadedModel load_model(const ModelRequest& request);

// The same for a model that is found already; `request.model` is not looked at.
LoadedModel load_found_model(const ModelRequest& request, FoundModel found);

// A model whose files are all read, to be loaded with one size after another.
struct OpenedModel;
std::shared_ptr<const OpenedModel> open_model(const ModelRequest& request);
LoadedModel load_opened_model(const ModelRequest& request, const OpenedModel& opened);

// The same as it is where layers are checkpointed; none where that makes no other graph of it.
std::optional<LoadedModel> load_checkpointed_model(const ModelRequest& request,
                                                   const OpenedModel& opened,
                                                   const LoadedModel& model);

// One line of `cairn models`.
struct CatalogueEntry {
  std::string name = {};
  std::string family = {};
  std::string source = {};  // "meta-llama/Llama-3.1-8B"
  std::int64_t parameter_count = 0;
  std::int64_t active_parameter_count = 0;  // of one token
};

// Every catalogue model whose name, source, family or family's title contains `part`, by name.
std::vector<CatalogueEntry> list_catalogue(const std::string& part,
                                           const std::vector<std::filesystem::path>& folders);

}  // namespace cairn
