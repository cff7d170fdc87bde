#include "cli/header.h"

#include <fmt/format.h>

#include <set>

#include "cli/table.h"
#include "cli/text.h"
#include "cli/units.h"
#include "cli/what_if.h"
#include "graph/data_type.h"
#include "graph/error.h"
#include "models/quantization.h"
#include "models/source_text.h"
#include "models/training_keys.h"

namespace cairn {
namespace {

constexpr std::string_view kModelLabel = "model      ";
constexpr std::string_view kRecipeLabel = "recipe     ";
constexpr std::string_view kTrainingLabel = "training   ";
constexpr std::string_view kAdaptersLabel = "adapters   ";
constexpr std::string_view kQuantizedLabel = "quantised  ";
constexpr std::string_view kExtentLabel = "recompute  ";
constexpr std::string_view kGpuLabel = "GPU        ";

// "3 x 224 x 224": one sample of the first input of a floating-point type that has `batch` of them.
std::string sample_text(const Graph& graph, std::int64_t batch) {
  for (const Tensor& tensor : graph.tensors) {
    const bool is_samples = tensor.role == TensorRole::kInput && is_floating(tensor.data_type) &&
                            tensor.shape.size() > 1 && tensor.shape[0] == batch;
    if (!is_samples) continue;
    std::string text;
    for (std::size_t i = 1; i < tensor.shape.size(); ++i) {
      text += fmt::format("{}{}", i == 1 ? "" : " x ", grouped_text(tensor.shape[i]));
    }
    return text;
  }
  return {};
}

// "batch 8 x 512 -> 128 tokens", where a family's decoder has a length of its own.
std::string samples_text(const LoadedModel& model) {
  const std::int64_t batch = dim_value(model, "batch");
  if (batch == 0) return {};
  std::string text = "batch " + grouped_text(batch);
  const std::int64_t tokens = dim_value(model, "tokens");
  const std::int64_t target_tokens = dim_value(model, "target_tokens");
  if (tokens > 0) {
    text += " x " + grouped_text(tokens);
    if (target_tokens > 0) text += " -> " + grouped_text(target_tokens);
    text += " tokens";
  } else if (const std::string sample = sample_text(model.graph, batch); !sample.empty()) {
    text += " x " + sample;
  }
  return text + ", ";
}

// What is not the default of the training step: ", 4 micro-batches, gradients kept".
std::string training_step_text(const Recipe& recipe) {
  const TrainingStep& step = recipe.step;
  std::string text;
  if (step.micro_batches > 1) {
    text += fmt::format(", {} micro-batches", grouped_text(step.micro_batches));
  }
  if (step.keeps_gradients) text += ", gradients kept";
  if (step.main_gradient_type) {
    text += fmt::format(", {} main gradients", data_type_name(*step.main_gradient_type));
  }
  if (step.optimizer_in_backward) text += ", optimizer in backward";
  if (step.optimizer_loop != OptimizerLoop::kFused) {
    text += fmt::format(", {} optimizer", optimizer_loop_name(step.optimizer_loop));
  }
  return text;
}

std::string training_text(const LoadedModel& model) {
  std::string text = samples_text(model);
  const std::int64_t vocab = dim_value(model, "vocab");
  if (vocab > 0) text += fmt::format("vocabulary {}, ", grouped_text(vocab));
  text += fmt::format("{}, {}", precision_name(model.recipe.precision), model.recipe.optimizer);
  if (model.recipe.optimizer_state_type) {
    text += fmt::format(" with {} states", data_type_name(*model.recipe.optimizer_state_type));
  }
  if (!model.attention.empty()) text += fmt::format(", {} attention", printable(model.attention));
  const Recipe& recipe = model.recipe;
  for (const std::string_view option : kImplementationOptions) {
    const auto asked = recipe.implementations.find(std::string(option));
    if (option == "attention" || asked == recipe.implementations.end()) continue;
    text += fmt::format(", {} {}", printable(asked->second), option);
  }
  if (!recipe.freeze.empty() || !recipe.train_only.empty()) {
    text += fmt::format(", {} of {} parameters trainable",
                        grouped_text(trainable_parameter_count(model.graph)),
                        grouped_text(parameter_count(model.graph)));
  }
  if (recipe.quantization) {
    text += fmt::format(", {} weights", quantized_format_name(recipe.quantization->format));
  }
  text += training_step_text(recipe);
  if (recipe.expert_imbalance > 1.0) {
    text += fmt::format(", expert imbalance {}", recipe.expert_imbalance);
  }
  if (recipe.expert_capacity > 0.0) {
    text += fmt::format(", expert capacity {}", recipe.expert_capacity);
  }
  return text;
}

std::string recipe_text(const LoadedModel& model) {
  if (model.recipe_name.empty()) return {};
  return labelled_text(kRecipeLabel, printable(model.recipe_name));
}

// ", fp32": the types of what is trained.
std::string trained_types_text(const Graph& graph) {
  std::set<std::string_view> types;
  for (const Tensor& tensor : graph.tensors) {
    if (tensor.role != TensorRole::kParameter || !tensor.requires_grad) continue;
    types.insert(data_type_name(tensor.data_type));
  }
  std::string text;
  for (const std::string_view type : types) {
    text += fmt::format("{}{}", text.empty() ? ", " : " and ", type);
  }
  return text;
}

std::string names_text(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) {
    text += fmt::format("{}{}", text.empty() ? "" : ", ",
                        printable(name == "all-linear" ? "all linear layers" : name));
  }
  return text;
}

// "LoRA of rank 16 on q_proj, v_proj, dropout 0.05, fp32; 6,815,744 parameters trained".
std::string adapters_text(const LoadedModel& model) {
  const Adapters& adapters = *model.recipe.adapters;
  std::string text = fmt::format("{} of rank {} on {}", adapters.has_magnitudes ? "DoRA" : "LoRA",
                                 grouped_text(adapters.rank), names_text(adapters.targets));
  if (adapters.dropout > 0.0) text += fmt::format(", dropout {}", adapters.dropout);
  if (!adapters.trained_modules.empty()) {
    text += fmt::format(", and {} whole", names_text(adapters.trained_modules));
  }
  return text + fmt::format("{}; {} parameters trained", trained_types_text(model.graph),
                            grouped_text(trainable_parameter_count(model.graph)));
}

// "6,979,321,856 weights in nf4, their scales too; products in bf16".
std::string quantization_text(const LoadedModel& model) {
  const Quantization& quantization = *model.recipe.quantization;
  std::int64_t weights = 0;
  for (const Tensor& tensor : model.graph.tensors) {
    const bool is_weight = tensor.role == TensorRole::kParameter && !tensor.is_buffer;
    if (is_weight && !is_floating(tensor.data_type)) {
      weights += element_count(tensor.shape, tensor.name);
    }
  }
  std::string text = fmt::format("{} weights in {}", grouped_text(weights),
                                 quantized_format_name(quantization.format));
  if (quantization.is_double) text += ", their scales too";
  if (quantization.format == QuantizedFormat::kInt8) return text;
  return text +
         fmt::format("; products in {}", data_type_name(quantized_compute_type(model.recipe)));
}

std::string_view extent_text(Extent extent) {
  switch (extent) {
    case Extent::kNeeded:
      return "extent needed: only what backward still needs is rerun";
    case Extent::kPrefix:
      return "extent prefix: up to the last saved tensor, as torch.utils.checkpoint does with "
             "use_reentrant=False";
    case Extent::kWhole:
      return "extent whole: the whole region, as torch.utils.checkpoint does with "
             "use_reentrant=True";
  }
  CAIRN_CHECK(false, "unknown extent");
}

std::string dim_origin_text(const ResolvedDim& dim) {
  std::string text = printable(dim.origin_text, std::string_view::npos);
  switch (dim.origin) {
    case DimOrigin::kFile:
      return "key " + text;
    case DimOrigin::kOption:
      return text;
    case DimOrigin::kDefault:
      return "default: " + text;
    case DimOrigin::kDerived:
      return "always: " + text;
  }
  CAIRN_CHECK(false, "unknown origin");
}

}  // namespace

std::string model_header(const LoadedModel& model) {
  if (model.family.empty()) {
    return labelled_text(kModelLabel, fmt::format("{}, a plain graph with {} of parameters",
                                                  printable(model.name, std::string_view::npos),
                                                  bytes_text(parameter_bytes(model.graph)))) +
           labelled_text(kTrainingLabel,
                         "optimizer " + model.recipe.optimizer + training_step_text(model.recipe));
  }
  // Of the model itself: adapters, and copies that are trained beside it, have a line of their own.
  const std::int64_t beside = model.recipe.adapters ? trainable_parameter_count(model.graph) : 0;
  const std::int64_t parameters = parameter_count(model.graph) - beside;
  const std::int64_t active = active_parameter_count(model.graph) - beside;
  const std::string exact = grouped_text(parameters);
  std::string rounded = rounded_text(parameters);
  if (rounded == exact) rounded.clear();
  if (active != parameters) {
    rounded +=
        fmt::format("{}{} active a token", rounded.empty() ? "" : "; ", rounded_text(active));
  }
  return labelled_text(
             kModelLabel,
             fmt::format("{}, {} parameters{}, family {}",
                         printable(model.name, std::string_view::npos), exact,
                         rounded.empty() ? "" : fmt::format(" ({})", rounded), model.family)) +
         recipe_text(model) + labelled_text(kTrainingLabel, training_text(model)) +
         (model.recipe.quantization ? labelled_text(kQuantizedLabel, quantization_text(model))
                                    : "") +
         (model.recipe.adapters ? labelled_text(kAdaptersLabel, adapters_text(model)) : "");
}

std::string extent_header(Extent extent) {
  return labelled_text(kExtentLabel, extent_text(extent));
}

std::string explained_dims(const ModelOptions& options, const LoadedModel& model) {
  if (!options.explain_defaults || model.dims.empty()) return {};
  Table table{.columns = {{"dim"}, {"value", Align::kRight}, {"from"}}};
  for (const ResolvedDim& dim : model.dims) {
    const bool is_flag = dim.type == DimType::kFlag;
    table.rows.push_back({dim.name,
                          is_flag ? (dim.value.integer == 1 ? "true" : "false") : spell(dim.value),
                          dim_origin_text(dim)});
  }
  for (const ResolvedDim& dim : model.per_layer) {
    table.rows.push_back({dim.name, "per layer", dim_origin_text(dim)});
  }
  return table_text(table) + "\n";
}

std::string gpu_header(const DeviceSpec& gpu) {
  const std::string id = printable(gpu.id, std::string_view::npos);
  const std::string name = printable(gpu.name, std::string_view::npos);
  const bool name_has_id = name.find(id) != std::string::npos;
  std::string text = name_has_id ? name : fmt::format("{}, {}", id, name);
  text += fmt::format(": {}", bytes_text(gpu.total_bytes));
  for (const MemoryReserve& reserve : gpu.reserves) {
    text += fmt::format(" - {} {}", bytes_text(reserve.bytes), reserve.what);
  }
  text += fmt::format(" = {} for tensors", bytes_text(capacity_bytes(gpu)));
  return labelled_text(kGpuLabel, text);
}

std::string precision_note(const LoadedModel& model, const DeviceSpec& gpu) {
  const bool is_bf16 =
      !model.family.empty() && compute_type(model.recipe.precision) == DataType::kBFloat16;
  if (!is_bf16 || !gpu.lacks_bf16) return {};
  return fmt::format(
      "{} has no bf16 tensor cores: bf16 takes longer than the times here, which are fp16's; its "
      "bytes are the same",
      gpu.id);
}

}  // namespace cairn
