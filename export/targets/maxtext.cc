#include "export/export_plan.h"
#include "export/plan_forms.h"
#include "export/targets.h"

// MaxText's configuration (maxtext 0.2.4: configs/base.yml, layers/decoders.py and
// nnx_decoders.py). All layers are in one jax.checkpoint each, with a policy that keeps tensors by
// name: of those the name "context" is just what fused attention makes; others (query_proj) are set
// behind further ops than Cairn's tensors. Its policy "none" is the same as "full" in decoders.py:
// that nothing is recomputed cannot be said.

namespace cairn {
namespace {

bool keeps_attention(const ExportAnswer& answer) {
  return plan_form(answer.exported.layers).kind == PlanKind::kKeepLists;
}

std::string write(const ExportAnswer& answer) {
  if (!keeps_attention(answer)) return "remat_policy: 'full'\n";
  return "remat_policy: 'custom'\ndecoder_layer_input: 'device'\ncontext: 'device'\n";
}

std::vector<std::string> traps(const ExportAnswer& answer) {
  std::vector<std::string> traps = {
      "peak and FLOPs are of PyTorch's kernels and of what they save; XLA has others, so compare "
      "plans by them, and measure the peak"};
  if (keeps_attention(answer)) {
    traps.emplace_back(
        "only fused attention has a tensor named context: attention: dot_product has none, and all "
        "is recomputed; leave the other tensors of the policy at remat, as base.yml has them");
  }
  return traps;
}

}  // namespace

ExportTarget maxtext_target() {
  return {.name = "maxtext",
          .title = "MaxText",
          .versions = "maxtext 0.2.4",
          .vocabulary = {.nothing = false, .keep_attention = true},
          .extent = Extent::kNeeded,
          .behaviour = {.is_torch = false},
          .write = write,
          .traps = traps};
}

}  // namespace cairn
