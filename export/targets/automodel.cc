#include "export/export_plan.h"
#include "export/targets.h"

// NeMo Automodel's YAML (nemo-automodel 0.7.0: components/distributed/parallelizer.py): all layers
// or none. Whole layers only of models with the code of Transformers; of others it checkpoints the
// parts of each layer by themselves. Its selective mode keeps what a fixed list of kernels makes,
// which no plan of Cairn is.

namespace cairn {
namespace {

std::string write(const ExportAnswer& answer) {
  const bool is_on = !answer.exported.layers.regions.empty();
  return std::string("distributed:\n  strategy: fsdp2\n  activation_checkpointing: ") +
         (is_on ? "full\n  activation_checkpointing_scope: all\n" : "false\n");
}

std::vector<std::string> traps(const ExportAnswer& answer) {
  if (answer.exported.layers.regions.empty()) return {};
  return {
      "whole layers are recomputed of models with the code of Transformers (force_hf: true), "
      "without "
      "torch.compile, and where each layer has a trainable parameter; else it checkpoints "
      "attention, "
      "MLP and norms each by itself, and keeps more"};
}

}  // namespace

ExportTarget automodel_target() {
  return {.name = "automodel",
          .title = "NeMo Automodel",
          .versions = "nemo-automodel 0.7.0",
          .library = "hf",
          .extent = Extent::kPrefix,
          .write = write,
          .traps = traps};
}

}  // namespace cairn
