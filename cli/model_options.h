#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "graph/device_spec.h"
#include "graph/plan.h"
#include "models/load_model.h"

namespace CLI {  // NOLINT(readability-identifier-naming): CLI11's
class App;
}

// The options that all commands about a model share: which model, trained how, on which GPU. They
// are kept as typed, so that every message about a value is ours.

namespace cairn {

struct ModelOptions {
  std::string model = {};
  std::string batch = "1";
  std::optional<std::string> tokens = {};
  std::optional<std::string> vocab = {};
  std::vector<std::string> set = {};
  std::optional<std::string> precision = {};
  std::string optimizer = "adamw";
  std::string optimizer_loop = "fused";
  bool optimizer_in_backward = false;
  std::string accumulate = "1";
  bool keep_gradients = false;
  std::map<std::string, std::string> implementations = {};  // by option, as far as given
  std::vector<std::string> freeze = {};
  std::vector<std::string> train_only = {};
  std::optional<std::string> expert_imbalance = {};
  std::optional<std::string> expert_capacity = {};
  std::string part = "all";
  bool explain_defaults = false;
  std::vector<std::string> folders = {};
};

void add_model_options(CLI::App& command, ModelOptions& options);
void add_folder_option(CLI::App& command, std::vector<std::string>& folders);
void add_checkpointing_option(CLI::App& command, std::optional<std::string>& text);
void add_json_option(CLI::App& command, bool& json);
// `text` holds the default.
void add_extent_option(CLI::App& command, std::string& text);
void add_extent_option(CLI::App& command, std::optional<std::string>& text);
void add_gpu_option(CLI::App& command, std::optional<std::string>& gpu);

// These throw InputError naming the option.
ModelRequest model_request(const ModelOptions& options);
Extent parse_extent(const std::string& text);
std::vector<std::filesystem::path> folder_paths(const std::vector<std::string>& folders);
// Empty when no GPU was named.
std::optional<DeviceSpec> requested_gpu(const std::optional<std::string>& gpu,
                                        const std::vector<std::string>& folders);

}  // namespace cairn
