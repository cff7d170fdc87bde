#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "cli/adapter_options.h"
#include "graph/device_spec.h"
#include "graph/plan.h"
#include "models/load_model.h"
#include "planner/planner.h"

namespace CLI {  // NOLINT(readability-identifier-naming): CLI11's
class App;
}

// The options that all commands about a model share: which model, trained how, on which GPU. They
// are kept as typed, so that every message about a value is ours, and absent where none was.

namespace cairn {

struct ModelOptions {
  std::string model = {};
  std::optional<std::string> batch = {};
  std::optional<std::string> tokens = {};
  std::optional<std::string> vocab = {};
  std::vector<std::string> set = {};
  std::optional<std::string> recipe = {};
  std::optional<std::string> precision = {};
  std::optional<std::string> optimizer = {};
  std::optional<std::string> optimizer_loop = {};
  std::optional<std::string> optimizer_states = {};
  std::optional<bool> optimizer_in_backward = {};
  std::optional<std::string> accumulate = {};
  std::optional<bool> keep_gradients = {};
  std::optional<std::string> main_gradients = {};
  std::map<std::string, std::string> implementations = {};  // by option, as far as given
  std::vector<std::string> freeze = {};
  std::vector<std::string> train_only = {};
  AdapterOptions adapters = {};
  QuantizationOptions quantization = {};
  std::optional<bool> input_require_grads = {};
  std::optional<std::string> library = {};
  std::optional<std::string> expert_imbalance = {};
  std::optional<std::string> expert_capacity = {};
  std::optional<std::string> part = {};
  bool explain_defaults = false;
  std::vector<std::string> folders = {};
};

void add_model_options(CLI::App& command, ModelOptions& options);
void add_folder_option(CLI::App& command, std::vector<std::string>& folders);
void add_checkpointing_option(CLI::App& command, std::optional<std::string>& text);
void add_json_option(CLI::App& command, bool& json);
void add_extent_option(CLI::App& command, std::optional<std::string>& text);
void add_gpu_option(CLI::App& command, std::optional<std::string>& gpu);

// These throw InputError naming the option. What was not typed is as in `otherwise`; so is the
// model, where there is one.
ModelRequest model_request(const ModelOptions& options, ModelRequest otherwise = {});
Extent parse_extent(const std::string& text);
// As typed; otherwise as the request's recipe says, or none, and prefix.
Strategy requested_strategy(const std::optional<std::string>& text, const ModelRequest& request);
Extent requested_extent(const std::optional<std::string>& text, const ModelRequest& request);
std::vector<std::filesystem::path> folder_paths(const std::vector<std::string>& folders);
// Empty when no GPU was named.
std::optional<DeviceSpec> requested_gpu(const std::optional<std::string>& gpu,
                                        const std::vector<std::string>& folders);

}  // namespace cairn
