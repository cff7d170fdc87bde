#include <fmt/format.h>

#include "export/export_plan.h"
#include "export/layer_lines.h"
#include "export/targets.h"

// LLM Foundry's YAML (llm-foundry 0.22.0: models/utils/act_ckpt.py; composer 0.32.1:
// distributed/dist_strategy.py): any blocks of its MPT models, by number.

namespace cairn {
namespace {

std::string write(const ExportAnswer& answer) {
  const LayerPlan& plan = answer.exported.layers;
  if (plan.regions.empty()) return "fsdp_config:\n  activation_checkpointing: false\n";
  std::string blocks;
  if (const auto count = first_layers(plan)) {
    blocks = fmt::format("first-{}", *count);
  } else {
    for (const std::int64_t layer : recomputed_layers(plan)) {
      blocks += fmt::format("{}{}", blocks.empty() ? "[" : ", ", layer);
    }
    blocks += "]";
  }
  return fmt::format(
      "fsdp_config:\n"
      "  activation_checkpointing: true\n"
      "  activation_checkpointing_reentrant: false\n"
      "model:\n"
      "  activation_checkpointing_target:\n"
      "    mptblock: {}\n",
      blocks);
}

std::vector<std::string> traps(const ExportAnswer& answer) {
  if (answer.exported.layers.regions.empty()) return {};
  return {
      "only MPT models (mpt_causal_lm) read activation_checkpointing_target: of any other all "
      "layers are recomputed"};
}

}  // namespace

ExportTarget llm_foundry_target() {
  return {.name = "llm-foundry",
          .title = "LLM Foundry",
          .versions = "llm-foundry 0.22.0",
          .has_own_code = true,
          .vocabulary = {.any_layers = true, .needs_one_list = true},
          .extent = Extent::kPrefix,
          .write = write,
          .traps = traps};
}

}  // namespace cairn
