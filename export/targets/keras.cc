#include "export/export_plan.h"
#include "export/python_text.h"
#include "export/targets.h"

// Keras' RematScope(mode="list_of_layers") (keras 3.15: backend/common/remat.py, ops/operation.py
// and layers/layer.py). A layer takes the scope in which it is made, and matches by its own name
// whatever it is in; a name of no layer is passed over in silence.

namespace cairn {
namespace {

constexpr std::string_view kCode = R"(

def names(numbers, name):
    return [name.format(number) for number in numbers]


def plan_scope(name="transformer_layer_{}"):
    """Make the model inside of it: with plan_scope(): model = ...; `name` is of its layers."""
    return keras.RematScope(mode="list_of_layers", layer_names=names(RECOMPUTED, name))


def check_plan(model, name="transformer_layer_{}"):
    """That each layer is there once, and the planned ones, and no other, were made in the scope."""
    made = [layer for layer in model._flatten_layers() if isinstance(layer, keras.layers.Layer)]
    recomputed = names(RECOMPUTED, name)
    for expected in names(range(LAYER_COUNT), name):
        layers = [layer for layer in made if layer.name == expected]
        if len(layers) != 1:
            raise ValueError(f"expected one layer {expected!r}, found {len(layers)}")
        mode = getattr(layers[0], "_remat_mode", None)
        chosen = mode.layer_names if mode and mode.mode == "list_of_layers" else []
        if (expected in chosen) != (expected in recomputed):
            raise ValueError(f"{expected!r} was not made in plan_scope")
)";

std::string write(const ExportAnswer& answer) {
  const LayerPlan& plan = answer.exported.layers;
  const std::vector<bool> is_recomputed = layers_alone(plan).value();
  std::vector<std::int64_t> numbers;
  for (std::size_t i = 0; i < plan.layers.size(); ++i) {
    if (is_recomputed[i]) numbers.push_back(static_cast<std::int64_t>(i));
  }
  return "import keras\n\n# Layers by place in the order they run.\nLAYER_COUNT = " +
         std::to_string(plan.layers.size()) +
         "\nRECOMPUTED = " + (numbers.empty() ? "[]" : python_numbers(numbers)) + "\n" +
         std::string(kCode);
}

std::vector<std::string> traps(const ExportAnswer& answer) {
  std::vector<std::string> traps = {
      "peak and FLOPs are of PyTorch's kernels and its checkpoints: on the jax backend XLA has "
      "other kernels and recomputes less; measure the peak"};
  if (answer.exported.layers.regions.empty()) return traps;
  traps.emplace_back(
      "a layer takes the scope in which it is made, not the one in which it is called; call "
      "check_plan(model) once");
  traps.emplace_back(
      "on the jax backend it cannot wrap a layer that takes `training` as an argument, nor one "
      "that "
      "changes its state (dropout, batch norm): the step fails");
  return traps;
}

}  // namespace

ExportTarget keras_target() {
  return {.name = "keras",
          .title = "Keras' RematScope, by names of layers",
          .versions = "keras 3.15, backends jax and torch",
          .vocabulary = {.any_layers = true},
          // torch's non-reentrant checkpoint on that backend; jax.checkpoint runs no more than it.
          .extent = Extent::kPrefix,
          // On torch, dropout's own seed has moved on when a layer is run again.
          .behaviour = {.replays_random = false, .is_torch = false},
          .write = write,
          .traps = traps};
}

}  // namespace cairn
