#include "export/export_plan.h"
#include "export/layer_lines.h"
#include "export/targets.h"

// Lightning's FSDPStrategy (lightning 2.6.6: fabric/strategies/fsdp.py): its
// activation_checkpointing_policy is handed on to torch's apply_activation_checkpointing, which
// asks it of each module.

namespace cairn {
namespace {

constexpr std::string_view kPolicy = R"(

def plan_policy(model):
    """Of the model of these paths, which a LightningModule holds: its layers have to be there before
    the strategy, FSDPStrategy(activation_checkpointing_policy=plan_policy(model))."""
)";

constexpr std::string_view kChosen =
    R"(    chosen = {id(model.get_submodule(path)) for path in RECOMPUTED}
    return functools.partial(lambda_auto_wrap_policy, lambda_fn=lambda module: id(module) in chosen)
)";

std::string write(const ExportAnswer& answer) {
  std::string text =
      "import functools\n\nfrom torch.distributed.fsdp.wrap import lambda_auto_wrap_policy\n\n"
      "# Each of these layers is recomputed in backward, alone.\n";
  text += "RECOMPUTED = [\n" + recomputed_path_lines(answer) + "]\n" + std::string(kPolicy);
  if (answer.request.library == "hf") {
    text += "    model.config.use_cache = False  # a recompute would fill the cache once more\n";
  }
  return text + std::string(kChosen);
}

std::vector<std::string> traps(const ExportAnswer& answer) {
  if (answer.exported.layers.regions.empty()) return {};
  return {
      "FSDPStrategy ignores the policy, with a warning, where any layer of the model is "
      "checkpointed already",
      "with configure_model, layers are made after the strategy: call fsdp's apply_plan there "
      "instead (--to fsdp)"};
}

}  // namespace

ExportTarget lightning_target() {
  return {.name = "lightning",
          .title = "Lightning's FSDPStrategy",
          .versions = "lightning 2.6.6",
          .vocabulary = {.any_layers = true, .needs_modules = true},
          .extent = Extent::kPrefix,
          .write = write,
          .traps = traps};
}

}  // namespace cairn
