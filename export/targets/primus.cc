#include <fmt/format.h>

#include "export/export_plan.h"
#include "export/targets.h"

// AMD's Primus on Megatron-LM: the recomputed layers by number
// (primus/backends/megatron/patches/recompute_layer_patches.py at v26.5). Layers are numbered over
// all pipeline stages; an empty list is an error there.

namespace cairn {
namespace {

std::string write(const ExportAnswer& answer) {
  const LayerPlan& plan = answer.exported.layers;
  if (plan.regions.empty()) {
    return "recompute_granularity: null\nrecompute_method: null\nrecompute_layer_ids: null\n";
  }
  const std::vector<bool> is_recomputed = layers_alone(plan).value();
  std::string ids;
  for (std::size_t i = 0; i < is_recomputed.size(); ++i) {
    if (is_recomputed[i]) ids += (ids.empty() ? "" : ",") + std::to_string(i);
  }
  return fmt::format(
      "recompute_granularity: full\nrecompute_method: null\nrecompute_layer_ids: \"{}\"\n", ids);
}

std::vector<std::string> traps(const ExportAnswer& answer) {
  std::vector<std::string> traps;
  if (answer.exported.layers.regions.empty()) return traps;
  traps.emplace_back(
      "these are overrides of modules.pre_trainer; recompute_num_layers has no say beside them");
  traps.emplace_back(
      "in fp8 or fp4 a layer whose input requires no gradient is not recomputed, whatever the list "
      "says");
  traps.emplace_back(
      "layers that predict further tokens (MTP) have the numbers behind the last layer, and are "
      "not "
      "in this list");
  return traps;
}

}  // namespace

ExportTarget primus_target() {
  return {.name = "primus",
          .title = "AMD Primus, on Megatron-LM",
          .versions = "primus 26.5",
          .vocabulary = {.any_layers = true},
          .extent = Extent::kWhole,  // Megatron's own reentrant checkpoint
          .behaviour = {.is_reentrant = true},
          .write = write,
          .traps = traps};
}

}  // namespace cairn
