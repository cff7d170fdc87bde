#include "models/quantization.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string_view>

#include "graph/error.h"
#include "graph/ops/op_kind.h"
#include "models/linear_layers.h"
#include "models/source_text.h"
#include "models/training_keys.h"

namespace cairn {
namespace {

bool is_quantized(const Op& op) {
  return op.kind->name == "linear_4bit" || op.kind->name == "linear_4bit_saving_input" ||
         op.kind->name == "linear_8bit";
}

bool is_linear(const Op& op) { return op.kind->name == "linear" || is_quantized(op); }

std::string option_text(const Quantization& quantization) {
  return fmt::format("--quantize {}", quantized_format_name(quantization.format));
}

// A pattern that leaves out no linear layer may have meant the last part of the path of one.
void check_skipped(const Graph& graph, const std::string& pattern) {
  std::set<std::string> names;
  for (const Op& op : graph.ops) {
    if (!is_linear(op) || op.module.empty()) continue;
    if (names_module(pattern, op.module)) return;
    names.insert(op.module.substr(op.module.rfind('.') + 1));
  }
  const std::string_view asked =
      std::string_view(pattern).starts_with("*.") ? std::string_view(pattern).substr(2) : pattern;
  throw InputError(fmt::format("--quantize-skip: no linear layer is called {}{}",
                               in_quotes(pattern),
                               did_you_mean(asked, {names.begin(), names.end()})));
}

}  // namespace

DataType quantized_compute_type(const Recipe& recipe) {
  const DataType otherwise = compute_type(recipe.precision);
  return recipe.quantization ? recipe.quantization->compute_type.value_or(otherwise) : otherwise;
}

void skip_unquantized(const Family& family, Quantization& quantization) {
  quantization.skipped_modules.insert(quantization.skipped_modules.end(),
                                      family.unquantized.begin(), family.unquantized.end());
}

void check_quantized(const Graph& graph, const Recipe& recipe, const Quantization& asked) {
  for (const std::string& pattern : asked.skipped_modules) check_skipped(graph, pattern);
  if (std::none_of(graph.ops.begin(), graph.ops.end(), is_quantized)) {
    throw InputError(fmt::format(
        "{}: {} has no linear layer to quantise{}", option_text(asked), graph.name,
        asked.skipped_modules.empty() ? ""
                                      : " but its head and those that --quantize-skip leaves out"));
  }
  if (trainable_parameter_count(graph) == 0) {
    throw InputError(
        fmt::format("{}: quantised weights are not trained, and nothing else is left "
                    "to train; expected adapters (--lora RANK)",
                    option_text(asked)));
  }
  // Transformers 5.17, trainer_utils.py (validate_quantization_for_training).
  if (!recipe.adapters && recipe.freeze.empty() && recipe.train_only.empty()) {
    throw InputError(fmt::format(
        "{}: quantised weights are not trained, and Transformers' Trainer refuses a model of them "
        "without adapters; expected --lora RANK, or --train-only or --freeze for what a loop of "
        "your own trains",
        option_text(asked)));
  }
}

std::vector<std::string> quantization_notes(const Graph& graph, const Recipe& recipe) {
  std::vector<std::string> notes;
  const std::string option = option_text(*recipe.quantization);
  const bool has_experts = std::any_of(graph.ops.begin(), graph.ops.end(), [](const Op& op) {
    return op.kind->name == "expert_linear";
  });
  if (has_experts) {
    notes.push_back(fmt::format(
        "{}: the experts' weights are parameters of their own, not linear layers: bitsandbytes "
        "leaves them as they are",
        option));
  }
  if (recipe.quantization->format == QuantizedFormat::kInt8) {
    notes.push_back(fmt::format(
        "{}: bitsandbytes keeps the inputs of its layers where torch's checkpoints with "
        "use_reentrant=False do not see them, and drops none; plans with regions need "
        "use_reentrant=True (--extent whole)",
        option));
  }
  if (!recipe.adapters) {
    notes.push_back(
        fmt::format("{}: quantised weights are frozen, all others are trained; Transformers' "
                    "Trainer takes such a model only with adapters (--lora RANK)",
                    option));
  }
  return notes;
}

}  // namespace cairn
