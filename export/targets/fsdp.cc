#include "export/export_plan.h"
#include "export/layer_lines.h"
#include "export/targets.h"

// The checkpoint wrapper that comes with FSDP (torch 2.13:
// torch/distributed/algorithms/_checkpoint/checkpoint_wrapper.py). It chooses modules by a
// function; what FSDP or torch.compile wrapped before has other paths, which are looked through.

namespace cairn {
namespace {

constexpr std::string_view kImports = R"(import collections
import functools

from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import (
    apply_activation_checkpointing,
    checkpoint_wrapper,
)

)";

constexpr std::string_view kModules = R"(

def modules_of(model):
    """By path, whatever FSDP or torch.compile put around them."""
    wraps = ("_fsdp_wrapped_module", "_orig_mod", "_checkpoint_wrapped_module")
    return {".".join(name for name in path.split(".") if name not in wraps): module
            for path, module in model.named_modules()}


def apply_plan(model):
    """Call this before torch.compile and fully_shard, but after FullyShardedDataParallel."""
)";

constexpr std::string_view kApply = R"(    modules = modules_of(model)
    chosen = {id(modules[path]) for path in RECOMPUTED}
    apply_activation_checkpointing(model, checkpoint_wrapper_fn=checkpoint_wrapper,
                                   check_fn=lambda module: id(module) in chosen)
)";

constexpr std::string_view kCheck = R"(

def check_plan(model, step):
    """Applies the plan to a model, and checks in one `step()`, which has to run forward and
    backward once, that each layer runs as often as planned."""
    apply_plan(model)
    runs, hooks, modules = collections.Counter(), [], modules_of(model)
    for path in LAYER_RUNS:
        hook = functools.partial(lambda path, *_: runs.update([path]), path)
        hooks.append(modules[path].register_forward_pre_hook(hook))
    step()
    for hook in hooks:
        hook.remove()
    wrong = {path: runs[path] for path in LAYER_RUNS if runs[path] != LAYER_RUNS[path]}
    assert not wrong, f"forward runs differ from LAYER_RUNS: {wrong}"
)";

std::string write(const ExportAnswer& answer) {
  std::string text = std::string(kImports);
  text += "# Each of these layers is recomputed in backward, alone.\n";
  text += "RECOMPUTED = [\n" + recomputed_path_lines(answer) + "]\n";
  text += "# How often each layer's forward runs in a forward and backward pass.\n";
  text += "LAYER_RUNS = dict([\n" + layer_run_lines(answer) + "])\n";
  text += kModules;
  if (answer.request.library == "hf") {
    text += "    model.config.use_cache = False  # a recompute would fill the cache once more\n";
  }
  return text + std::string(kApply) + std::string(kCheck);
}

std::vector<std::string> traps(const ExportAnswer& answer) {
  if (answer.exported.layers.regions.empty()) return {};
  return {
      "leave the trainer's own gradient checkpointing off: with both, layers are recomputed twice",
      "names of modules get a part more, _checkpoint_wrapped_module: choose adapters and groups of "
      "the optimizer before"};
}

}  // namespace

ExportTarget fsdp_target() {
  return {.name = "fsdp",
          .title = "PyTorch's apply_activation_checkpointing, with FSDP or without",
          .versions = "torch 2.13",
          .vocabulary = {.any_layers = true, .needs_modules = true},
          .extent = Extent::kPrefix,
          .write = write,
          .traps = traps};
}

}  // namespace cairn
