#include "models/training_keys.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "graph/error.h"
#include "models/optimizer.h"
#include "models/source_text.h"
#include "models/yaml_text.h"

namespace cairn {
namespace {

constexpr std::array kFloatingTypes = {DataType::kFloat32, DataType::kBFloat16, DataType::kFloat16};

constexpr std::array<std::pair<QuantizedFormat, std::string_view>, 3> kFormats = {
    {{QuantizedFormat::kNf4, "nf4"},
     {QuantizedFormat::kFp4, "fp4"},
     {QuantizedFormat::kInt8, "int8"}}};

std::optional<DataType> read_floating_type(Fields& fields, std::string_view key) {
  const std::optional<std::string> name = fields.optional_one_of(key, floating_type_names());
  return name ? find_data_type(*name) : std::nullopt;
}

std::string read_name(Fields& fields, std::string_view key) {
  std::optional<std::string> name = fields.optional_text(key);
  if (name && name->empty()) fields.fail_at_key(key, "expected a name, found an empty text");
  return name.value_or("");
}

// As --optimizer takes it, by Transformers' names too.
std::string read_optimizer_name(Fields& fields) {
  const std::optional<std::string> text = fields.optional_text("optimizer");
  if (!text) return ModelRequest{}.optimizer;
  const std::vector<std::string> names = optimizer_names();
  std::string name = optimizer_name(*text);
  if (std::find(names.begin(), names.end(), name) == names.end()) {
    fields.optional_one_of("optimizer", names);  // refuses it
  }
  return name;
}

void read_optimizer(Fields& fields, ModelRequest& request) {
  TrainingStep& step = request.step;
  request.optimizer = read_optimizer_name(fields);
  step.optimizer_loop = parse_optimizer_loop(
      fields.optional_one_of("optimizer_loop", optimizer_loop_names()).value_or("fused"));
  step.optimizer_in_backward = fields.optional_boolean("optimizer_in_backward").value_or(false);
  step.micro_batches = fields.optional_count("accumulate").value_or(1);
  step.keeps_gradients = fields.optional_boolean("keep_gradients").value_or(false);
  step.main_gradient_type = read_floating_type(fields, "main_gradients");
  request.optimizer_state_type = read_floating_type(fields, "optimizer_states");
}

double read_dropout(Fields& fields) {
  const double dropout = fields.optional_number("dropout").value_or(0.0);
  if (dropout < 0.0 || dropout >= 1.0) {
    fields.fail_at_key("dropout",
                       fmt::format("expected a number from 0 to below 1, found {}", dropout));
  }
  return dropout;
}

Adapters read_adapters(const Document& document, const Node& node, const std::string& what) {
  Fields fields(document, node, what);
  Adapters adapters;
  fields.require("rank");
  adapters.rank = *fields.optional_count("rank");
  adapters.alpha = fields.optional_number("alpha");
  if (adapters.alpha && *adapters.alpha <= 0.0) {
    fields.fail_at_key("alpha",
                       fmt::format("expected a number above 0, found {}", *adapters.alpha));
  }
  adapters.scales_by_root = fields.optional_boolean("rslora").value_or(false);
  adapters.targets = fields.optional_names("targets");
  adapters.dropout = read_dropout(fields);
  adapters.data_type = read_floating_type(fields, "dtype");
  adapters.has_magnitudes = fields.optional_boolean("dora").value_or(false);
  adapters.trained_modules = fields.optional_names("train");
  fields.refuse_unknown();
  return adapters;
}

Quantization read_quantization(const Document& document, const Node& node,
                               const std::string& what) {
  Fields fields(document, node, what);
  fields.require("format");
  Quantization quantization{.format = *find_quantized_format(
                                *fields.optional_one_of("format", quantized_format_names()))};
  const bool is_int8 = quantization.format == QuantizedFormat::kInt8;
  quantization.is_double = fields.optional_boolean("double").value_or(false);
  quantization.compute_type = read_floating_type(fields, "compute");
  quantization.skipped_modules = fields.optional_names("skip");
  fields.refuse_unknown();
  if (is_int8 && quantization.is_double) {
    fields.fail_at_key("double", "format int8 has no scales of blocks to be quantised again");
  }
  if (is_int8 && quantization.compute_type) {
    fields.fail_at_key("compute", "format int8 is multiplied as int8: only nf4 and fp4 have one");
  }
  return quantization;
}

template <typename Texts>
std::string names_text(const Texts& texts) {
  std::vector<std::string> items;
  for (const std::string& text : texts) items.push_back(yaml_scalar(text));
  return yaml_list(items);
}

}  // namespace

void read_training_keys(const Document& document, Fields& fields, ModelRequest& request) {
  const std::optional<std::string> precision =
      fields.optional_one_of("precision", precision_names());
  request.precision = precision ? find_precision(*precision) : std::nullopt;
  read_optimizer(fields, request);
  request.implementations.clear();
  for (const std::string_view option : kImplementationOptions) {
    std::string choice = read_name(fields, option);
    if (!choice.empty()) request.implementations[std::string(option)] = std::move(choice);
  }
  request.library = read_name(fields, "library");
  request.freeze = fields.optional_names("freeze");
  request.train_only = fields.optional_names("train_only");
  request.adapters.reset();
  if (const Node* const node = fields.find("lora")) {
    request.adapters = read_adapters(document, *node, fields.what_of("lora"));
  }
  request.quantization.reset();
  if (const Node* const node = fields.find("quantize")) {
    request.quantization = read_quantization(document, *node, fields.what_of("quantize"));
  }
  request.input_require_grads = fields.optional_boolean("input_require_grads");
}

std::string adapters_text(const Adapters& adapters) {
  std::string text = fmt::format("{{rank: {}", adapters.rank);
  if (!adapters.targets.empty()) text += ", targets: " + names_text(adapters.targets);
  if (adapters.dropout > 0.0) text += fmt::format(", dropout: {}", adapters.dropout);
  if (adapters.alpha) text += fmt::format(", alpha: {}", *adapters.alpha);
  if (adapters.scales_by_root) text += ", rslora: true";
  if (adapters.data_type) text += fmt::format(", dtype: {}", data_type_name(*adapters.data_type));
  if (adapters.has_magnitudes) text += ", dora: true";
  if (!adapters.trained_modules.empty()) text += ", train: " + names_text(adapters.trained_modules);
  return text + "}";
}

std::string quantization_text(const Quantization& quantization) {
  std::string text = fmt::format("{{format: {}", quantized_format_name(quantization.format));
  if (quantization.format != QuantizedFormat::kInt8) {
    text += fmt::format(", double: {}", quantization.is_double);
  }
  if (quantization.compute_type) {
    text += fmt::format(", compute: {}", data_type_name(*quantization.compute_type));
  }
  if (!quantization.skipped_modules.empty()) {
    text += ", skip: " + names_text(quantization.skipped_modules);
  }
  return text + "}";
}

std::vector<std::string> floating_type_names() {
  std::vector<std::string> names;
  for (const DataType type : kFloatingTypes) names.emplace_back(data_type_name(type));
  return names;
}

std::string_view quantized_format_name(QuantizedFormat format) {
  for (const auto& [known, name] : kFormats) {
    if (known == format) return name;
  }
  CAIRN_CHECK(false, "unknown quantised format");
}

std::optional<QuantizedFormat> find_quantized_format(std::string_view name) {
  for (const auto& [format, known] : kFormats) {
    if (known == name) return format;
  }
  return std::nullopt;
}

std::vector<std::string> quantized_format_names() {
  std::vector<std::string> names;
  for (const auto& [format, name] : kFormats) names.emplace_back(name);
  return names;
}

std::optional<Contradiction> contradiction_in(const TrainingStep& step) {
  if (step.main_gradient_type && step.keeps_gradients) {
    return Contradiction{.first = "main-gradients",
                         .second = "keep-gradients",
                         .reason = "one drops each gradient in backward, the other keeps them all"};
  }
  if (!step.optimizer_in_backward) return std::nullopt;
  if (step.main_gradient_type) {
    return Contradiction{.first = "optimizer-in-backward",
                         .second = "main-gradients",
                         .reason =
                             "one steps each parameter in backward, the other gathers all "
                             "gradients for a step behind it"};
  }
  if (step.micro_batches > 1) {
    return Contradiction{
        .first = "optimizer-in-backward",
        .second = fmt::format("accumulate {}", step.micro_batches),
        .reason =
            "a parameter is stepped before the later micro-batches have added to its "
            "gradient"};
  }
  if (step.keeps_gradients) {
    return Contradiction{.first = "optimizer-in-backward",
                         .second = "keep-gradients",
                         .reason = "one drops each gradient in backward, the other keeps them all"};
  }
  if (step.optimizer_loop == OptimizerLoop::kForeach) {
    return Contradiction{.first = "optimizer-in-backward",
                         .second = "optimizer-loop foreach",
                         .reason =
                             "one parameter at a time has nothing to loop over; expected "
                             "fused or for-loop"};
  }
  return std::nullopt;
}

}  // namespace cairn
