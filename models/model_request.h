#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "graph/data_type.h"
#include "graph/plan.h"
#include "graph/precision.h"
#include "graph/recipe.h"
#include "graph/training_step.h"

namespace cairn {

// What a recipe file says besides how it trains: for messages, and for what depends on the family.
struct RecipeInUse {
  std::string name = {};     // "qlora"; "" where no recipe is in use
  std::string library = {};  // that the recipe names; "" where it names none, or an option another
  // Options whose implementation the recipe names, and has to be there.
  std::vector<std::string> implementations = {};
  // Implementations to take where the family has them; elsewhere its own, and a note.
  std::map<std::string, std::string> where_available = {};
  std::optional<std::string> checkpointing = {};  // a strategy, as --checkpointing takes it
  std::optional<Extent> extent = {};
  std::vector<std::string> notes = {};
  bool needs_several_gpus = false;
};

// What the user typed about a model.
struct ModelRequest {
  // A catalogue name (llama-3.1-8b), a path (config.json or its folder, a model file, a plain
  // graph), or org/name in the local Hugging Face cache.
  std::string model = {};
  std::int64_t batch = 1;
  std::optional<std::int64_t> tokens = {};  // default: the smaller of 2048 and the model's limit
  std::optional<std::int64_t> vocab = {};
  std::vector<std::pair<std::string, std::string>> set = {};  // dim, value as typed
  std::optional<Precision> precision = {};  // default: the config's dtype, else bf16
  std::string optimizer = "adamw";
  TrainingStep step = {};
  std::optional<DataType> optimizer_state_type = {};        // default: as the optimizer makes them
  std::map<std::string, std::string> implementations = {};  // Recipe::implementations
  std::vector<std::string> freeze = {};                     // Recipe::freeze
  std::vector<std::string> train_only = {};                 // Recipe::train_only
  std::optional<Adapters> adapters = {};                    // Recipe::adapters
  std::optional<Quantization> quantization = {};            // Recipe::quantization
  // Recipe::input_require_grads; default: where layers are checkpointed.
  std::optional<bool> input_require_grads = {};
  bool is_checkpointed = false;
  // Whose code runs the model: "hf", "torchtune", "litgpt", ...; "": that of the model's family.
  std::string library = {};
  RecipeInUse recipe = {};
  std::optional<double> expert_imbalance = {};  // Recipe::expert_imbalance
  std::optional<double> expert_capacity = {};   // Recipe::expert_capacity
  bool text_part_only = false;                  // of a config with more parts than its text_config
  std::vector<std::filesystem::path> folders = {};  // more families, layers, catalogue
};

}  // namespace cairn
