#include "export/layer_chain.h"
#include "export/targets.h"

// mx.checkpoint around layers that are modules (mlx 0.32: mlx/transforms.cpp and nn/utils.py).
// Arrays that the function does not take are constants to it, so parameters are handed in; what its
// Backward runs again is evaluated lazily, so no more than is needed.

namespace cairn {
namespace {

constexpr std::string_view kCheckpointed =
    R"(def checkpointed(layers, regions, begin, end, x, shared):
    modules = [layers[place] for place in range(begin, end)]

    def run(parameters, x, *shared):
        for module, values in zip(modules, parameters):
            module.update(values)
        return run_part(layers, regions, begin, end, x, shared)

    return mx.checkpoint(run)([module.trainable_parameters() for module in modules], x, *shared)
)";

std::string write(const ExportAnswer& answer) {
  return chain_text(answer, {.imports = "import mlx.core as mx\n",
                             .checkpoint = "mx.checkpoint",
                             .checkpointed = std::string(kCheckpointed),
                             .run_layers = run_layers_text("Layers are modules of mlx.nn.")});
}

std::vector<std::string> traps(const ExportAnswer& answer) {
  std::vector<std::string> traps = chain_traps(answer, "MLX");
  if (answer.exported.layers.regions.empty()) return traps;
  traps.emplace_back(
      "leave mlx-lm's grad_checkpoint off: it wraps every layer of the first layer's class, "
      "whatever "
      "the plan is");
  return traps;
}

}  // namespace

ExportTarget mlx_target() {
  return {.name = "mlx",
          .title = "MLX's mx.checkpoint, around layers of mlx.nn",
          .versions = "mlx 0.32",
          // No regions in regions: the outer recompute runs all of the inner ones, needed or not.
          .vocabulary = {.any_layers = true, .any_runs = true},
          .extent = Extent::kNeeded,
          .behaviour = {.is_torch = false},
          .write = write,
          .traps = traps};
}

}  // namespace cairn
