#include "export/layer_chain.h"
#include "export/targets.h"

// Flax's remat around layers that are modules, of nnx and of linen (flax 0.12:
// nnx/transforms/autodiff.py, core/lift.py). Both are jax.checkpoint, with the modules' state
// handed in and out, so a recompute runs what is needed alone.

namespace cairn {
namespace {

constexpr std::string_view kCheckpointed = R"(@dataclasses.dataclass(frozen=True)
class LinenLayers:
    """Layers of a bound linen module: a checkpoint binds it anew."""

    module: linen.Module
    layers_of: Callable
    first: int

    def __getitem__(self, place):
        return self.layers_of(self.module)[place - self.first]


def checkpointed(layers, regions, begin, end, x, shared):
    if isinstance(layers, LinenLayers):

        def run_linen(module, x):
            bound = dataclasses.replace(layers, module=module)
            return run_part(bound, regions, begin, end, x, shared)

        return linen.remat(run_linen)(layers.module, x)

    def run(modules, x):
        return run_part(dict(enumerate(modules, begin)), regions, begin, end, x, shared)

    return nnx.remat(run)([layers[place] for place in range(begin, end)], x)
)";

constexpr std::string_view kRunLinen = R"(

def run_linen_layers(module, layers_of, x, *shared, first=0):
    """The same in the call of a linen module, whose layers are layers_of(module): those of a list
    that its setup makes."""
    end = first + len(layers_of(module))
    layers = LinenLayers(module, layers_of, first)
    return run_part(layers, regions_of(first, end), first, end, x, shared)
)";

std::string write(const ExportAnswer& answer) {
  return chain_text(
      answer, {.imports = "import dataclasses\nfrom collections.abc import Callable\n\n"
                          "from flax import linen, nnx\n",
               .checkpoint = "remat",
               .checkpointed = std::string(kCheckpointed),
               .run_layers = run_layers_text("Layers are nnx modules.") + std::string(kRunLinen)});
}

std::vector<std::string> traps(const ExportAnswer& answer) {
  std::vector<std::string> traps = chain_traps(answer, "XLA");
  if (answer.exported.layers.regions.empty()) return traps;
  traps.emplace_back(
      "layers are unrolled: in nnx.scan, linen.scan and remat_scan all layers are alike, and a "
      "plan that differs between them is lost");
  return traps;
}

}  // namespace

ExportTarget flax_target() {
  return {.name = "flax",
          .title = "Flax's remat, around layers of nnx or linen modules",
          .versions = "flax 0.12, jax 0.10",
          .vocabulary = {.any_layers = true, .any_runs = true, .nested = true},
          .extent = Extent::kNeeded,
          .behaviour = {.is_torch = false},
          .write = write,
          .traps = traps};
}

}  // namespace cairn
