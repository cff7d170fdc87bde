#include "export/export_plan.h"
#include "export/targets.h"
#include "export/traps.h"

// Unsloth's use_gradient_checkpointing (unsloth 2026.10.9: models/llama.py; unsloth_zoo 2026.10.9:
// training_utils.py): all layers or none. "unsloth", its default, moves what it keeps to the host,
// which no plan of Cairn says. Its checkpoints are reentrant, and it makes the embedding's output
// require a gradient itself.

namespace cairn {
namespace {

std::string write(const ExportAnswer& answer) {
  const bool is_on = !answer.exported.layers.regions.empty();
  return std::string(
             "# FastLanguageModel.from_pretrained(**ARGUMENTS, ...), and the same for "
             "get_peft_model.\nARGUMENTS = {\"use_gradient_checkpointing\": ") +
         (is_on ? "True}\n" : "False}\n");
}

std::vector<std::string> traps(const ExportAnswer& answer) {
  if (answer.exported.layers.regions.empty()) return {};
  std::vector<std::string> traps = {
      "use_gradient_checkpointing=\"unsloth\" keeps the layers' inputs in host memory: the peak is "
      "lower than said"};
  if (recomputes_random(answer)) {
    traps.emplace_back(
        "the layers have dropout: Unsloth's own loop over layers passes preserve_rng_state=False, "
        "and gradients are silently wrong; set dropout to 0");
  }
  return traps;
}

}  // namespace

ExportTarget unsloth_target() {
  return {.name = "unsloth",
          .title = "Unsloth",
          .versions = "unsloth 2026.10.9",
          .library = "hf",
          .has_own_code = true,
          .extent = Extent::kWhole,
          .behaviour = {.is_torch = false},
          .write = write,
          .traps = traps};
}

}  // namespace cairn
