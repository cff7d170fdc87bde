#include "export/layer_lines.h"

#include <fmt/format.h>

#include "export/python_text.h"

namespace cairn {
namespace {

void add(const ModelLayer& layer, std::string_view runs, PythonItems& items) {
  const bool is_numbered = !layer.list.empty();
  std::string item = python_path(layer.path, is_numbered ? &layer : nullptr);
  if (!runs.empty()) item = fmt::format("({}, {})", item, runs);
  if (is_numbered) {
    items.add(layer.list, layer.number, item);
  } else {
    items.add(item);
  }
}

}  // namespace

std::vector<std::int64_t> recomputed_layers(const LayerPlan& plan) {
  const std::vector<bool> is_recomputed = layers_alone(plan).value();
  std::vector<std::int64_t> layers;
  for (std::size_t i = 0; i < is_recomputed.size(); ++i) {
    if (is_recomputed[i]) layers.push_back(static_cast<std::int64_t>(i));
  }
  return layers;
}

std::string recomputed_path_lines(const ExportAnswer& answer) {
  PythonItems items;
  const LayerPlan& plan = answer.exported.layers;
  for (const std::int64_t layer : recomputed_layers(plan)) {
    add(plan.layers[static_cast<std::size_t>(layer)], "", items);
  }
  return items.lines();
}

std::string layer_run_lines(const ExportAnswer& answer) {
  PythonItems items;
  const std::vector<ModelLayer>& layers = answer.exported.layers.layers;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    add(layers[i], std::to_string(answer.layer_runs[i]), items);
  }
  return items.lines();
}

}  // namespace cairn
