#include <fmt/format.h>

#include <algorithm>

#include "export/export_plan.h"
#include "export/layer_lines.h"
#include "export/python_text.h"
#include "export/targets.h"
#include "graph/ops/op_kind.h"

// OLMo-core's ac_config (ai2-olmo-core 3.0.0: nn/transformer/model.py,
// apply_activation_checkpointing): all blocks, every k-th from 0 on, or any by the names of their
// modules. It does not replay random numbers, and refuses blocks with experts.

namespace cairn {
namespace {

std::string write(const ExportAnswer& answer) {
  const LayerPlan& plan = answer.exported.layers;
  constexpr std::string_view kUse = "# TransformerTrainModuleConfig(ac_config=AC_CONFIG, ...)";
  if (plan.regions.empty()) return fmt::format("{}\nAC_CONFIG = None\n", kUse);
  std::string mode = "full";
  std::string more;
  if (plan_form(plan).kind != PlanKind::kAll) {
    if (const auto step = every_kth(plan, EveryKth::kFromFirst)) {
      mode = "selected_blocks";
      more = fmt::format("    block_interval={},\n", *step);
    } else {
      mode = "selected_modules";
      more = fmt::format("    modules=[f\"blocks.{{i}}\" for i in {}],\n",
                         python_numbers(recomputed_layers(plan)));
    }
  }
  return fmt::format(
      "from olmo_core.train.train_module import (\n"
      "    TransformerActivationCheckpointingConfig,\n"
      "    TransformerActivationCheckpointingMode,\n"
      ")\n\n{}\n"
      "AC_CONFIG = TransformerActivationCheckpointingConfig(\n"
      "    mode=TransformerActivationCheckpointingMode.{},\n{})\n",
      kUse, mode, more);
}

std::vector<std::string> traps(const ExportAnswer& answer) {
  const auto& ops = answer.graph->ops;
  const bool has_experts = std::any_of(ops.begin(), ops.end(), [](const Op& op) {
    return op.kind != nullptr && op.kind->name == "dispatch";
  });
  if (answer.exported.layers.regions.empty() || !has_experts) return {};
  return {"OLMo-core refuses to checkpoint a whole block with experts"};
}

}  // namespace

ExportTarget olmo_core_target() {
  return {
      .name = "olmo-core",
      .title = "OLMo-core",
      .versions = "ai2-olmo-core 3.0.0",
      .has_own_code = true,
      .vocabulary = {.every_kth = EveryKth::kFromFirst, .any_layers = true, .needs_one_list = true},
      .extent = Extent::kPrefix,
      .behaviour = {.replays_random = false},
      .write = write,
      .traps = traps};
}

}  // namespace cairn
