#include "cli/adapter_options.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <array>
#include <charconv>
#include <system_error>
#include <utility>

#include "cli/option_kinds.h"
#include "cli/units.h"
#include "graph/error.h"
#include "models/training_keys.h"

namespace cairn {
namespace {

constexpr std::string_view kNone = "none";

constexpr std::array<std::pair<std::string_view, std::string_view>, 3> kLongTypeNames = {
    {{"float32", "fp32"}, {"bfloat16", "bf16"}, {"float16", "fp16"}}};

// The first option that was typed beside the one that it belongs to, or "".
std::string_view first_detail(const AdapterOptions& options) {
  if (!options.targets.empty()) return "--lora-targets";
  if (options.dropout) return "--lora-dropout";
  if (options.data_type) return "--lora-dtype";
  if (options.has_magnitudes) return "--dora";
  if (!options.trained_modules.empty()) return "--lora-train";
  return {};
}

std::string_view first_detail(const QuantizationOptions& options) {
  if (options.is_double) return "--double-quant";
  if (options.compute_type) return "--quantize-compute";
  if (!options.skipped_modules.empty()) return "--quantize-skip";
  return {};
}

void refuse_detail(std::string_view detail, std::string_view option, std::string_view value,
                   bool is_none) {
  if (detail.empty()) return;
  if (is_none) {
    throw InputError(
        fmt::format("{} and {} none: expected one of them, found both", detail, option));
  }
  throw InputError(fmt::format("{} needs {} {}, or a recipe that has it", detail, option, value));
}

std::int64_t parse_rank(const std::string& text) {
  std::int64_t rank = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, rank);
  if (error == std::errc() && stop == end && rank >= 1) return rank;
  throw InputError(fmt::format(
      "--lora: expected a rank, a whole number of at least 1 such as 16, or none, found '{}'{}",
      text, did_you_mean(text, {std::string(kNone)})));
}

double parse_dropout(const std::string& text) {
  double dropout = 0.0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, dropout);
  if (error == std::errc() && stop == end && dropout >= 0.0 && dropout < 1.0) return dropout;
  throw InputError(fmt::format(
      "--lora-dropout: expected a number from 0 to below 1, such as 0.05, found '{}'", text));
}

QuantizedFormat parse_format(const std::string& text) {
  if (const auto format = find_quantized_format(text)) return *format;
  std::vector<std::string> names = quantized_format_names();
  names.emplace_back(kNone);
  throw InputError(fmt::format("--quantize: expected one of {}, found '{}'{}", join_names(names),
                               text, did_you_mean(text, names)));
}

bool parse_yes(const std::string& text, std::string_view option) {
  if (text == "yes") return true;
  if (text == "no") return false;
  throw InputError(fmt::format("{}: expected yes or no, found '{}'{}", option, text,
                               did_you_mean(text, {"yes", "no"})));
}

// What only 4-bit weights have; what the recipe says of them goes with its format.
void drop_what_int8_has_not(const QuantizationOptions& options, Quantization& quantization) {
  const auto refuse = [](std::string_view option) {
    throw InputError(
        fmt::format("--quantize int8 and {}: only the 4-bit formats nf4 and fp4 have it", option));
  };
  if (options.is_double && quantization.is_double) refuse("--double-quant yes");
  if (options.compute_type) refuse("--quantize-compute");
  quantization.is_double = false;
  quantization.compute_type.reset();
}

}  // namespace

void add_adapter_options(CLI::App& command, AdapterOptions& options) {
  command
      .add_option("--lora", options.rank,
                  "Freeze all weights and train adapters of this rank\nbeside linear layers; none "
                  "undoes a recipe's")
      ->type_name("RANK");
  add_repeatable_option(
      command, "--lora-targets", "PATTERN", options.targets,
      "Linear layers with an adapter, such as '*.q_proj', or\nall-linear; default the family's; "
      "repeatable");
  command
      .add_option("--lora-dropout", options.dropout,
                  "Dropout before the adapters, from 0 (default)")
      ->type_name("P");
  command
      .add_option("--lora-dtype", options.data_type,
                  "Type of the adapters: fp32, bf16 or fp16; default the\nlibrary's")
      ->type_name("TYPE");
  add_undoable_flag(command, "--dora", options.has_magnitudes,
                    "Train a magnitude of each output beside them (DoRA)");
  add_repeatable_option(command, "--lora-train", "MODULE", options.trained_modules,
                        "Train this whole beside the adapters, such as lm_head;\nrepeatable");
}

void add_quantization_options(CLI::App& command, QuantizationOptions& options) {
  command
      .add_option("--quantize", options.format,
                  "Hold frozen linear weights as bitsandbytes does, in\nnf4, fp4 or int8; none "
                  "undoes a recipe's")
      ->type_name("FORMAT");
  command
      .add_option("--double-quant", options.is_double,
                  "Quantise the scales of 4-bit blocks again: yes, or no\n(default)")
      ->type_name("yes|no");
  command
      .add_option("--quantize-compute", options.compute_type,
                  "Type of 4-bit products: fp32, bf16 or fp16; default\nwhat weights or autocast "
                  "have")
      ->type_name("TYPE");
  add_repeatable_option(command, "--quantize-skip", "PATTERN", options.skipped_modules,
                        "Linear layers that stay as they are, besides the head;\nrepeatable");
}

std::optional<Adapters> requested_adapters(const AdapterOptions& options,
                                           std::optional<Adapters> otherwise) {
  std::optional<Adapters> adapters = std::move(otherwise);
  const bool is_none = options.rank == kNone;
  if (is_none) adapters.reset();
  if (options.rank && !is_none) {
    if (!adapters) adapters.emplace();
    adapters->rank = parse_rank(*options.rank);
  }
  if (!adapters) {
    refuse_detail(first_detail(options), "--lora", "RANK", is_none);
    return std::nullopt;
  }
  if (!options.targets.empty()) adapters->targets = options.targets;
  if (options.dropout) adapters->dropout = parse_dropout(*options.dropout);
  if (options.data_type) {
    adapters->data_type = parse_floating_type(*options.data_type, "--lora-dtype");
  }
  if (options.has_magnitudes) adapters->has_magnitudes = *options.has_magnitudes;
  if (!options.trained_modules.empty()) adapters->trained_modules = options.trained_modules;
  return adapters;
}

std::optional<Quantization> requested_quantization(const QuantizationOptions& options,
                                                   std::optional<Quantization> otherwise) {
  std::optional<Quantization> quantization = std::move(otherwise);
  const bool is_none = options.format == kNone;
  if (is_none) quantization.reset();
  if (options.format && !is_none) {
    const QuantizedFormat format = parse_format(*options.format);
    // An int8 recipe says nothing of double quantisation: 4 bits begin with the defaults.
    if (!quantization || quantization->format == QuantizedFormat::kInt8) {
      const std::vector<std::string> skipped =
          quantization ? quantization->skipped_modules : std::vector<std::string>{};
      quantization = Quantization{.skipped_modules = skipped};
    }
    quantization->format = format;
  }
  if (!quantization) {
    refuse_detail(first_detail(options), "--quantize", "FORMAT", is_none);
    return std::nullopt;
  }
  if (options.is_double) {
    quantization->is_double = parse_yes(*options.is_double, "--double-quant");
  }
  if (options.compute_type) {
    quantization->compute_type = parse_floating_type(*options.compute_type, "--quantize-compute");
  }
  if (!options.skipped_modules.empty()) quantization->skipped_modules = options.skipped_modules;
  if (quantization->format == QuantizedFormat::kInt8) {
    drop_what_int8_has_not(options, *quantization);
  }
  return quantization;
}

std::string short_type_name(const std::string& typed) {
  for (const auto& [long_name, name] : kLongTypeNames) {
    if (typed == long_name) return std::string(name);
  }
  return typed;
}

namespace {

// kNone is nothing, where it may be asked for.
std::optional<DataType> parse_type(const std::string& typed, std::string_view option,
                                   bool may_be_none) {
  const std::string text = short_type_name(typed);
  std::vector<std::string> names = floating_type_names();
  for (const std::string& name : names) {
    if (name == text) return find_data_type(name);
  }
  if (may_be_none) {
    if (text == kNone) return std::nullopt;
    names.emplace_back(kNone);
  }
  throw InputError(fmt::format("{}: expected one of {}, found '{}'{}", option, join_names(names),
                               typed, did_you_mean(typed, names)));
}

}  // namespace

DataType parse_floating_type(const std::string& typed, std::string_view option) {
  return *parse_type(typed, option, false);
}

std::optional<DataType> parse_floating_type_or_none(const std::string& typed,
                                                    std::string_view option) {
  return parse_type(typed, option, true);
}

}  // namespace cairn
