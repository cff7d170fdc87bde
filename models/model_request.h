#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "graph/precision.h"
#include "graph/recipe.h"
#include "graph/training_step.h"

namespace cairn {

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
  std::map<std::string, std::string> implementations = {};  // Recipe::implementations
  std::vector<std::string> freeze = {};                     // Recipe::freeze
  std::vector<std::string> train_only = {};                 // Recipe::train_only
  std::optional<Adapters> adapters = {};                    // Recipe::adapters
  std::optional<Quantization> quantization = {};            // Recipe::quantization
  // Whose code runs the model: "hf", "torchtune", "litgpt", ...; "": that of the model's family.
  std::string library = {};
  std::optional<double> expert_imbalance = {};  // Recipe::expert_imbalance
  std::optional<double> expert_capacity = {};   // Recipe::expert_capacity
  bool text_part_only = false;                  // of a config with more parts than its text_config
  std::vector<std::filesystem::path> folders = {};  // more families, layers, catalogue
};

}  // namespace cairn
