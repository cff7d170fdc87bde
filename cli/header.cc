#include "cli/header.h"

#include <fmt/format.h>

#include "cli/table.h"
#include "cli/text.h"
#include "cli/units.h"
#include "cli/what_if.h"
#include "graph/error.h"
#include "models/source_text.h"

namespace cairn {
namespace {

constexpr std::string_view kModelLabel = "model      ";
constexpr std::string_view kTrainingLabel = "training   ";
constexpr std::string_view kExtentLabel = "recompute  ";
constexpr std::string_view kGpuLabel = "GPU        ";

std::string training_text(const LoadedModel& model) {
  std::string text;
  const std::int64_t batch = dim_value(model, "batch");
  const std::int64_t tokens = dim_value(model, "tokens");
  const std::int64_t vocab = dim_value(model, "vocab");
  if (batch > 0 && tokens > 0) {
    text = fmt::format("batch {} x {} tokens, ", grouped_text(batch), grouped_text(tokens));
  } else if (batch > 0) {
    text = fmt::format("batch {}, ", grouped_text(batch));
  }
  if (vocab > 0) text += fmt::format("vocabulary {}, ", grouped_text(vocab));
  text += fmt::format("{}, {}", data_type_name(model.recipe.precision), model.recipe.optimizer);
  if (!model.attention.empty()) text += fmt::format(", {} attention", printable(model.attention));
  const Recipe& recipe = model.recipe;
  if (recipe.expert_imbalance > 1.0) {
    text += fmt::format(", expert imbalance {}", recipe.expert_imbalance);
  }
  if (recipe.expert_capacity > 0.0) {
    text += fmt::format(", expert capacity {}", recipe.expert_capacity);
  }
  return text;
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
  const std::string text = printable(dim.origin_text, std::string_view::npos);
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
           labelled_text(kTrainingLabel, "optimizer " + model.recipe.optimizer);
  }
  const std::int64_t parameters = parameter_count(model.graph);
  const std::string exact = grouped_text(parameters);
  const std::string rounded = rounded_text(parameters);
  return labelled_text(
             kModelLabel,
             fmt::format("{}, {} parameters{}, family {}",
                         printable(model.name, std::string_view::npos), exact,
                         rounded == exact ? "" : fmt::format(" ({})", rounded), model.family)) +
         labelled_text(kTrainingLabel, training_text(model));
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

}  // namespace cairn
