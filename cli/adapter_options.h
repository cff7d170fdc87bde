#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "graph/data_type.h"
#include "graph/recipe.h"

namespace CLI {  // NOLINT(readability-identifier-naming): CLI11's
class App;
}

// --lora and --quantize with what belongs to them, as typed.

namespace cairn {

struct AdapterOptions {
  std::optional<std::string> rank = {};  // or "none"
  std::vector<std::string> targets = {};
  std::optional<std::string> dropout = {};
  std::optional<std::string> data_type = {};
  std::optional<bool> has_magnitudes = {};
  std::vector<std::string> trained_modules = {};
};

struct QuantizationOptions {
  std::optional<std::string> format = {};  // or "none"
  std::optional<std::string> is_double = {};
  std::optional<std::string> compute_type = {};
  std::vector<std::string> skipped_modules = {};
};

void add_adapter_options(CLI::App& command, AdapterOptions& options);
void add_quantization_options(CLI::App& command, QuantizationOptions& options);

// What was not typed is as in `otherwise`. Throw InputError, also where there is nothing that a
// typed option could belong to.
std::optional<Adapters> requested_adapters(const AdapterOptions& options,
                                           std::optional<Adapters> otherwise);
std::optional<Quantization> requested_quantization(const QuantizationOptions& options,
                                                   std::optional<Quantization> otherwise);

// "float32", as PyTorch and config.json call it, is "fp32"; other texts stay as they are.
std::string short_type_name(const std::string& typed);
DataType parse_floating_type(const std::string& typed, std::string_view option);
// "none", which takes back what a recipe says, is nothing.
std::optional<DataType> parse_floating_type_or_none(const std::string& typed,
                                                    std::string_view option);

}  // namespace cairn
