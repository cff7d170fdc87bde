#include <fmt/format.h>

#include "export/export_plan.h"
#include "export/targets.h"
#include "export/traps.h"

// torchtune's YAML (torchtune 0.6.1: training/memory.py and training/activations.py): all layers,
// or of some recipes every k-th, from layer k - 1 on. Those do not replay random numbers.

namespace cairn {
namespace {

std::optional<std::int64_t> step_of(const LayerPlan& plan) {
  return every_kth(plan, EveryKth::kFromKth);
}

std::string write(const ExportAnswer& answer) {
  const LayerPlan& plan = answer.exported.layers;
  if (plan.regions.empty()) return "enable_activation_checkpointing: False\n";
  if (const auto step = step_of(plan)) {
    return fmt::format(
        "enable_activation_checkpointing: False  # else the lines below are not read\n"
        "ac_mode: selective\nac_option: {}\n",
        *step);
  }
  return "enable_activation_checkpointing: True\n";
}

std::vector<std::string> traps(const ExportAnswer& answer) {
  std::vector<std::string> traps;
  const LayerPlan& plan = answer.exported.layers;
  if (plan.regions.empty()) return traps;
  if (!step_of(plan)) {
    traps.emplace_back("leave ac_mode out: with it, enable_activation_checkpointing does nothing");
    return traps;
  }
  traps.emplace_back(
      "only full_finetune_distributed, qat_distributed and dev/early_exit_finetune_distributed "
      "read "
      "ac_mode");
  traps.emplace_back(
      "it counts layers in one process: those of a second model go on from the first one's");
  if (recomputes_random(answer)) {
    traps.emplace_back(
        "the layers have dropout, and every k-th layer is recomputed with other masks than "
        "forward's: gradients are silently wrong; set dropout to 0");
  }
  return traps;
}

}  // namespace

ExportTarget torchtune_target() {
  return {.name = "torchtune",
          .title = "torchtune",
          .versions = "torchtune 0.6.1",
          .has_own_code = true,
          .own_library = "torchtune",
          .vocabulary = {.every_kth = EveryKth::kFromKth, .needs_one_list = true},
          .extent = Extent::kPrefix,
          .write = write,
          .traps = traps};
}

}  // namespace cairn
