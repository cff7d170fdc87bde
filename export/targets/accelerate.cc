#include "export/export_plan.h"
#include "export/targets.h"

// Accelerate's configuration of FSDP 2 (accelerate 1.15.0: utils/fsdp_utils.py, fsdp2_apply_ac):
// all modules of the wrapped classes or none. It does not replay random numbers.

namespace cairn {
namespace {

std::string write(const ExportAnswer& answer) {
  const bool is_on = !answer.exported.layers.regions.empty();
  return std::string(
             "distributed_type: FSDP\n"
             "fsdp_config:\n"
             "  fsdp_version: 2\n"
             "  fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP\n"
             "  fsdp_activation_checkpointing: ") +
         (is_on ? "true\n" : "false\n");
}

std::vector<std::string> traps(const ExportAnswer& answer) {
  if (answer.exported.layers.regions.empty()) return {};
  return {
      "the classes that it wraps have to be the layers': fsdp_transformer_layer_cls_to_wrap, "
      "without "
      "it the model's _no_split_modules",
      "accelerate 1.14 wraps the parts of each layer instead, and keeps more"};
}

}  // namespace

ExportTarget accelerate_target() {
  return {.name = "accelerate",
          .title = "Accelerate's FSDP 2",
          .versions = "accelerate 1.15.0",
          .extent = Extent::kPrefix,
          .behaviour = {.replays_random = false},
          .write = write,
          .traps = traps};
}

}  // namespace cairn
