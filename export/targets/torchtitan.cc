#include <fmt/format.h>

#include "export/export_plan.h"
#include "export/layer_lines.h"
#include "export/python_text.h"
#include "export/targets.h"

// torchtitan's activation_checkpoint of Trainer.Config (torchtitan 0.3.0:
// distributed/activation_checkpoint.py): all layers by FullAC, some by a class of one's own. Its
// checkpoints do not stop early. Of earlier versions (0.2: mode and selective_ac_option) none of
// this is true.

namespace cairn {
namespace {

constexpr std::string_view kPlanClass = R"(

class PlanAC(FullAC):
    """FullAC of the layers of RECOMPUTED alone. A pipeline stage has the numbers of the model."""

    @dataclass(kw_only=True, slots=True)
    class Config(FullAC.Config):
        pass

    def _wrap_block(self, module, *, base_fqn=None):
        if int(base_fqn.rpartition(".")[2]) not in RECOMPUTED:
            return module
        return super()._wrap_block(module, base_fqn=base_fqn)


)";

std::string write(const ExportAnswer& answer) {
  const LayerPlan& plan = answer.exported.layers;
  constexpr std::string_view kUse = "# Trainer.Config(activation_checkpoint=AC_CONFIG, ...)";
  if (plan.regions.empty()) {
    return fmt::format("{}; the same as activation-checkpoint:none.\nAC_CONFIG = None\n", kUse);
  }
  const std::string import = "from torchtitan.distributed.activation_checkpoint import FullAC\n";
  if (plan_form(plan).kind == PlanKind::kAll) {
    return fmt::format("{}\n{}; the same as activation-checkpoint:full.\n{}\n", import, kUse,
                       "AC_CONFIG = FullAC.Config()");
  }
  return fmt::format("from dataclasses import dataclass\n\n{}\nRECOMPUTED = {}{}{}.\n{}\n", import,
                     python_numbers(recomputed_layers(plan)), kPlanClass, kUse,
                     "AC_CONFIG = PlanAC.Config()");
}

}  // namespace

ExportTarget torchtitan_target() {
  return {.name = "torchtitan",
          .title = "torchtitan",
          .versions = "torchtitan 0.3.0",
          .has_own_code = true,
          .own_library = "torchtitan",
          .vocabulary = {.any_layers = true, .needs_one_list = true},
          .extent = Extent::kWhole,
          .write = write};
}

}  // namespace cairn
