#include <fmt/format.h>

#include "export/export_plan.h"
#include "export/targets.h"

// LLaMA-Factory's YAML (llamafactory 0.9.5: model/model_utils/checkpointing.py, hparams): all
// layers but those without a trainable parameter, or none. It makes the layers' inputs require a
// gradient itself.

namespace cairn {
namespace {

std::string write(const ExportAnswer& answer) {
  if (answer.exported.layers.regions.empty()) return "disable_gradient_checkpointing: true\n";
  return "disable_gradient_checkpointing: false\n"
         "use_reentrant_gc: false\n"
         "use_unsloth_gc: false\n";
}

bool is_trained(const Graph& graph, const LayerRegion& region) {
  for (std::int32_t i = region.begin; i < region.end; ++i) {
    for (const TensorId input : graph.ops[static_cast<std::size_t>(i)].inputs) {
      const Tensor& tensor = graph.tensor(input);
      if (tensor.role == TensorRole::kParameter && tensor.requires_grad) return true;
    }
  }
  return false;
}

std::vector<std::string> traps(const ExportAnswer& answer) {
  const LayerPlan& plan = answer.exported.layers;
  std::vector<std::int64_t> frozen;
  for (const LayerRegion& region : plan.regions) {
    if (!is_trained(*answer.graph, region)) frozen.push_back(region.first_layer);
  }
  std::vector<std::string> traps;
  if (!frozen.empty()) {
    traps.push_back(fmt::format(
        "no parameter of layer{} {} is trained: it recomputes no such layer, and the peak "
        "is higher than said",
        frozen.size() == 1 ? "" : "s", ranges_text(frozen)));
  }
  if (!plan.regions.empty()) {
    traps.emplace_back("use_unsloth: true has checkpoints of its own, whatever these lines say");
  }
  return traps;
}

}  // namespace

ExportTarget llama_factory_target() {
  return {.name = "llama-factory",
          .title = "LLaMA-Factory",
          .versions = "llamafactory 0.9.5",
          .library = "hf",
          .extent = Extent::kPrefix,
          .behaviour = {.is_torch = false},
          .write = write,
          .traps = traps};
}

}  // namespace cairn
