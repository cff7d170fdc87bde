#include "export/export_plan.h"
#include "export/targets.h"

// Axolotl's YAML (axolotl 0.19: utils/schemas/config.py and training.py). It makes one choice for
// all layers; its transformers is pinned below 5.17, which is the first with every_n_layers.

namespace cairn {
namespace {

bool keeps_attention(const ExportAnswer& answer) {
  return plan_form(answer.exported.layers).kind == PlanKind::kKeepLists;
}

std::string write(const ExportAnswer& answer) {
  if (answer.exported.layers.regions.empty()) return "gradient_checkpointing: false\n";
  std::string text =
      "gradient_checkpointing: true\n"
      "gradient_checkpointing_kwargs:\n"
      "  use_reentrant: false\n";
  if (keeps_attention(answer)) {
    text +=
        "selective_checkpointing:\n"
        "  save: [attention]\n"
        "  save_sliding_window: true\n";
  }
  return text;
}

std::vector<std::string> traps(const ExportAnswer& answer) {
  std::vector<std::string> traps;
  if (answer.exported.layers.regions.empty()) return traps;
  traps.emplace_back(
      "activation_offloading: true, legacy and disk replace this checkpointing by their own");
  if (keeps_attention(answer)) {
    traps.emplace_back("with torch_compile, selective_checkpointing is untested in axolotl");
  }
  return traps;
}

}  // namespace

ExportTarget axolotl_target() {
  return {.name = "axolotl",
          .title = "Axolotl",
          .versions = "axolotl 0.19",
          .library = "hf",
          .vocabulary = {.keep_attention = true},
          .extent = Extent::kPrefix,
          .write = write,
          .traps = traps};
}

}  // namespace cairn
