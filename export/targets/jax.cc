#include "export/layer_chain.h"
#include "export/targets.h"

// jax.checkpoint around layers that are functions (jax 0.10: _src/ad_checkpoint.py). What a
// recompute runs is what the gradient still needs of it: the rest of its jaxpr is cut away
// (remat_dce), so its extent is needed.

namespace cairn {
namespace {

constexpr std::string_view kCheckpointed =
    R"(def checkpointed(layers, regions, begin, end, x, shared):
    def run(x):
        return run_part(layers, regions, begin, end, x, shared)

    return jax.checkpoint(run)(x)
)";

std::string write(const ExportAnswer& answer) {
  return chain_text(
      answer, {.imports = "import jax\n",
               .checkpoint = "jax.checkpoint",
               .checkpointed = std::string(kCheckpointed),
               .run_layers = run_layers_text(
                   "A layer is a function that holds its\n    parameters: functools.partial(layer, "
                   "parameters).")});
}

std::vector<std::string> traps(const ExportAnswer& answer) {
  std::vector<std::string> traps = chain_traps(answer, "XLA");
  if (answer.exported.layers.regions.empty()) return traps;
  traps.emplace_back(
      "run_layers unrolls the layers: in lax.scan all layers of a scan are alike, and a plan that "
      "differs between them is lost");
  return traps;
}

}  // namespace

ExportTarget jax_target() {
  return {.name = "jax",
          .title = "JAX's jax.checkpoint, around layers that are functions",
          .versions = "jax 0.10",
          .vocabulary = {.any_layers = true, .any_runs = true, .nested = true},
          .extent = Extent::kNeeded,
          .behaviour = {.is_torch = false},
          .write = write,
          .traps = traps};
}

}  // namespace cairn
