#include <fmt/format.h>

#include "export/export_plan.h"
#include "export/plan_forms.h"
#include "export/targets.h"

// PaddleNLP's Trainer (paddlenlp 2.8: transformers/llama/modeling.py, trainer/trainer.py): the
// layers that are not recomputed are a list of the model's configuration. Paddle's recompute, with
// use_reentrant or without, runs the layer's whole forward again
// (distributed/fleet/recompute/recompute.py).

namespace cairn {
namespace {

std::string write(const ExportAnswer& answer) {
  const LayerPlan& plan = answer.exported.layers;
  if (plan.regions.empty()) return "# Of TrainingArguments.\nARGUMENTS = {\"recompute\": False}\n";
  const std::vector<bool> is_recomputed = layers_alone(plan).value();
  std::string kept;
  for (std::size_t i = 0; i < is_recomputed.size(); ++i) {
    if (!is_recomputed[i]) kept += (kept.empty() ? "" : ", ") + std::to_string(i);
  }
  return fmt::format(
      "# Of TrainingArguments: TrainingArguments(**ARGUMENTS, ...).\n"
      "ARGUMENTS = {{\"recompute\": True}}\n"
      "# Of the model's configuration, before the model is made:\n"
      "# for key, value in CONFIG.items(): setattr(config, key, value)\n"
      "CONFIG = {{\n"
      "    \"recompute_granularity\": \"full\",\n"
      "    \"recompute_use_reentrant\": False,\n"
      "    \"no_recompute_layers\": [{}],\n"
      "}}\n",
      kept);
}

std::vector<std::string> traps(const ExportAnswer& answer) {
  std::vector<std::string> traps = {
      "peak and FLOPs are of PyTorch's kernels and of what they save; Paddle has others, so "
      "compare "
      "plans by them, and measure the peak"};
  const LayerPlan& plan = answer.exported.layers;
  if (plan.regions.empty()) return traps;
  if (plan_form(plan).kind != PlanKind::kAll) {
    traps.emplace_back(
        "of PaddleNLP 2.8 the models Llama and Mixtral read no_recompute_layers, others recompute "
        "every layer; with pipeline parallelism and granularity full it is refused");
  }
  traps.emplace_back(
      "a layer whose input requires no gradient (a frozen embedding, LoRA) is not recomputed, "
      "whatever the list says");
  return traps;
}

}  // namespace

ExportTarget paddle_target() {
  return {.name = "paddle",
          .title = "PaddleNLP's Trainer",
          .versions = "paddlenlp 2.8",
          .vocabulary = {.any_layers = true},
          .extent = Extent::kWhole,
          .behaviour = {.is_torch = false},
          .write = write,
          .traps = traps};
}

}  // namespace cairn
