#include "export/layer_chain.h"
#include "export/targets.h"

// tf.recompute_grad around layers (tensorflow 2.21: python/ops/custom_gradient.py, recompute_grad).
// Its gradient calls the whole function again under a tape of its own. Only what the function is
// called with, and variables, get gradients: so what layers share is handed in.

namespace cairn {
namespace {

constexpr std::string_view kCheckpointed =
    R"(def checkpointed(layers, regions, begin, end, x, shared):
    def run(x, *shared):
        return run_part(layers, regions, begin, end, x, shared)

    return tf.recompute_grad(run)(x, *shared)
)";

std::string write(const ExportAnswer& answer) {
  return chain_text(
      answer, {.imports = "import tensorflow as tf\n",
               .checkpoint = "tf.recompute_grad",
               .checkpointed = std::string(kCheckpointed),
               .run_layers = run_layers_text(
                   "x and what layers share are tensors;\n    other arguments are for the layers "
                   "to hold: functools.partial(layer, training=True).")});
}

std::vector<std::string> traps(const ExportAnswer& answer) {
  return chain_traps(answer, "TensorFlow");
}

}  // namespace

ExportTarget tensorflow_target() {
  return {.name = "tensorflow",
          .title = "TensorFlow's tf.recompute_grad, around layers",
          .versions = "tensorflow 2.21",
          .vocabulary = {.any_layers = true, .any_runs = true},
          .extent = Extent::kWhole,
          // tf.random.* draws anew when a layer is run again; stateless_* do not.
          .behaviour = {.replays_random = false, .is_torch = false},
          .write = write,
          .traps = traps};
}

}  // namespace cairn
