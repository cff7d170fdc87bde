#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "export/export_plan.h"
#include "export/kept_kernels.h"
#include "export/python_text.h"
#include "export/targets.h"

// torch.utils.checkpoint around the forward of modules. A run of several modules is one checkpoint
// call: all but the last hand on what they are called with, and the last runs them all.

namespace cairn {
namespace {

constexpr std::string_view kImports = R"(import collections
import functools

import torch
)";

constexpr std::string_view kWrapForward = R"(
def checkpointed(forward):
    @functools.wraps(forward)
    def run(*args, **kwargs):
        if not torch.is_grad_enabled():
            return forward(*args, **kwargs)
        return checkpoint(forward, *args, use_reentrant=False, **kwargs)

    return run

)";

constexpr std::string_view kRunClass = R"(
HIDDEN = object()  # stands for the tensor that is handed from module to module


class Run:
    """Modules that run one behind the other in one checkpoint call.

    Each but the last hands on the tensor that it is called with, unchanged, and the last runs them
    all. `inside` are runs of some of them: (first, end, inside), by place.
    """

    def __init__(self, modules, inside, **options):
        self.forwards = [module.forward for module in modules]
        self.inside, self.options = inside, options
        for place, module in enumerate(modules):
            module.forward = functools.partial(self.call, place)

    def call(self, place, *args, **kwargs):
        if not torch.is_grad_enabled():
            return self.forwards[place](*args, **kwargs)
        if place == 0:
            self.calls, self.hidden = [], args[0] if args else next(iter(kwargs.values()))
        args = [HIDDEN if value is self.hidden else value for value in args]
        kwargs = {key: HIDDEN if value is self.hidden else value for key, value in kwargs.items()}
        is_called = any(value is HIDDEN for value in (*args, *kwargs.values()))
        if len(self.calls) != place or not is_called:
            raise RuntimeError(f"module {place} of a run is not called with what the one before "
                               "it returned: these modules cannot be checkpointed together")
        self.calls.append((args, kwargs))
        if place + 1 < len(self.forwards):
            return self.hidden
        calls, hidden, self.calls, self.hidden = self.calls, self.hidden, None, None
        return self.checkpointed(0, len(calls), self.inside, calls, hidden)

    def checkpointed(self, first, end, inside, calls, hidden):
        run = functools.partial(self.run, first, end, inside, calls)
        return checkpoint(run, hidden, use_reentrant=False, **self.options)

    def run(self, first, end, inside, calls, hidden):
        inside = {region[0]: region for region in inside}
        while first < end:
            if first in inside:
                _, stop, deeper = inside[first]
                hidden = self.checkpointed(first, stop, deeper, calls, hidden)
            else:
                stop = first + 1
                args, kwargs = calls[first]
                args = [hidden if value is HIDDEN else value for value in args]
                kwargs = {key: hidden if value is HIDDEN else value
                          for key, value in kwargs.items()}
                hidden = self.forwards[first](*args, **kwargs)
            first = stop
        return hidden

)";

constexpr std::string_view kKeepPolicy =
    R"(PRODUCTS = {torch.ops.aten.mm.default, torch.ops.aten.addmm.default}
ATTENTION = {
    getattr(torch.ops.aten, name).default
    for name in (
        "_scaled_dot_product_flash_attention",
        "_scaled_dot_product_efficient_attention",
        "_scaled_dot_product_cudnn_attention",
        "_scaled_dot_product_flash_attention_for_cpu",
    )
    if hasattr(torch.ops.aten, name)
}
)";

constexpr std::string_view kKeepCode = R"(
kept_kernels = []  # of the modules that run, the innermost last


def keeping(forward, kernels):
    @functools.wraps(forward)
    def run(*args, **kwargs):
        kept_kernels.append(kernels)
        try:
            return forward(*args, **kwargs)
        finally:
            kept_kernels.pop()

    return run


def policy(context, kernel, *args, **kwargs):
    is_kept = bool(kept_kernels) and kernel in kept_kernels[-1]
    return CheckpointPolicy.MUST_SAVE if is_kept else CheckpointPolicy.PREFER_RECOMPUTE


keep_context = functools.partial(create_selective_checkpoint_contexts, policy)

)";

constexpr std::string_view kCheck = R"(

def check_plan(model, step):
    """Applies the plan to a model, and checks in one `step()`, which has to run forward and
    backward once, that each module runs as often as planned. For tests: the counters stay."""
    runs = collections.Counter()

    def counted(path, forward):
        def run(*args, **kwargs):
            runs[path] += 1
            return forward(*args, **kwargs)

        return run

    for path in FORWARD_RUNS:
        module = model.get_submodule(path)
        module.forward = counted(path, module.forward)
    apply_plan(model)
    step()
    wrong = {path: runs[path] for path in FORWARD_RUNS if runs[path] != FORWARD_RUNS[path]}
    assert not wrong, f"forward runs differ from FORWARD_RUNS: {wrong}"
)";

// The regions of a plan as checkpoint calls: those inside a layer of a run are calls of their own.
struct Calls {
  bool has_runs = false;
  bool has_keeps = false;
  PythonItems runs = {};
  PythonItems modules = {};  // the same where each is one module that keeps nothing
};

// Runs of the region's own modules inside it: "(0, 2, [])".
std::string inside_text(const LayerRegion& region, std::size_t origin_layer) {
  std::string text = "[";
  for (const LayerRegion& inner : region.inner) {
    if (inner.first_layer < 0 || region.first_layer < 0) continue;
    if (text.size() > 1) text += ", ";
    const auto origin = static_cast<std::int32_t>(origin_layer);
    text += fmt::format("({}, {}, {})", inner.first_layer - origin, inner.end_layer - origin,
                        inside_text(inner, origin_layer));
  }
  return text + "]";
}

class CallsOf {
 public:
  explicit CallsOf(const LayerPlan& plan) : plan_(plan) {}

  Calls calls() {
    for (const LayerRegion& region : plan_.regions) add(region, true);
    return std::move(calls_);
  }

 private:
  void add(const LayerRegion& region, bool is_call) {
    if (is_call) add_call(region);
    for (const LayerRegion& inner : region.inner) {
      add(inner, inner.first_layer < 0 || region.first_layer < 0);
    }
  }

  void add_call(const LayerRegion& region) {
    const bool keeps = !region.keep.empty();
    const std::string inside =
        inside_text(region, static_cast<std::size_t>(std::max(region.first_layer, 0)));
    const bool is_one = region.modules.size() == 1;
    calls_.has_runs = calls_.has_runs || !is_one || keeps || inside != "[]";
    calls_.has_keeps = calls_.has_keeps || keeps;
    const std::string rest = fmt::format(", {}, {}", inside, keeps ? "True" : "False");
    const ModelLayer* const layer = common_layer(region.modules);
    if (layer == nullptr && !is_one && region.first_layer >= 0) {
      std::vector<std::int64_t> numbers;
      for (std::int32_t i = region.first_layer; i < region.end_layer; ++i) {
        numbers.push_back(plan_.layers[static_cast<std::size_t>(i)].number);
      }
      const ModelLayer& first = plan_.layers[static_cast<std::size_t>(region.first_layer)];
      calls_.runs.add(fmt::format("([{} for i in {}]{})", python_path(first.path, &first),
                                  python_numbers(numbers), rest));
      return;
    }
    std::string list;
    for (const std::string& path : region.modules) {
      list += (list.empty() ? "" : ", ") + python_path(path, layer);
    }
    const std::string run = fmt::format("([{}]{})", list, rest);
    if (layer == nullptr) {
      calls_.runs.add(run);
      calls_.modules.add(list);
    } else {
      calls_.runs.add(layer->list, layer->number, run);
      calls_.modules.add(layer->list, layer->number, list);
    }
  }

  const ModelLayer* common_layer(const std::vector<std::string>& paths) const {
    const ModelLayer* common = layer_of_path(plan_.layers, paths.front());
    for (const std::string& path : paths) {
      if (layer_of_path(plan_.layers, path) != common) return nullptr;
    }
    return common;
  }

  const LayerPlan& plan_;
  Calls calls_ = {};
};

std::string kept_text(const ExportAnswer& answer) {
  const LayerPlan& plan = answer.exported.layers;
  PythonItems items;
  for (const LayerRegion& region : plan.regions) {
    const std::vector<KeptKernel> kernels = kept_kernels(*answer.graph, region.keep).value();
    for (const KeptKernel& kernel : kernels) {
      const ModelLayer* const layer = layer_of_path(plan.layers, kernel.module);
      const std::string item =
          fmt::format("({}, {})", python_path(kernel.module, layer),
                      kernel.kind == KernelKind::kProduct ? "PRODUCTS" : "ATTENTION");
      if (layer == nullptr) {
        items.add(item);
      } else {
        items.add(layer->list, layer->number, item);
      }
    }
  }
  return items.lines();
}

std::string forward_runs_text(const ExportAnswer& answer) {
  PythonItems items;
  const std::vector<ModelLayer>& layers = answer.exported.layers.layers;
  const auto add = [&](const std::string& path, std::int64_t runs) {
    const ModelLayer* const layer = layer_of_path(layers, path);
    const std::string item = fmt::format("({}, {})", python_path(path, layer), runs);
    if (layer == nullptr) {
      items.add(item);
    } else {
      items.add(layer->list, layer->number, item);
    }
  };
  for (std::size_t i = 0; i < layers.size(); ++i) add(layers[i].path, answer.layer_runs[i]);
  for (const auto& [path, runs] : answer.module_runs) add(path, runs);
  return items.lines();
}

std::string write(const ExportAnswer& answer) {
  const Calls calls = CallsOf(answer.exported.layers).calls();
  const bool is_hf = answer.request.library == "hf";
  std::string text = std::string(kImports);
  text += calls.has_keeps ? "from torch.utils.checkpoint import (\n"
                            "    CheckpointPolicy,\n    checkpoint,\n"
                            "    create_selective_checkpoint_contexts,\n)\n\n"
                          : "from torch.utils.checkpoint import checkpoint\n\n";
  if (calls.has_runs) {
    text +=
        "# What runs in one checkpoint call: modules, runs of them inside, whether it keeps "
        "some results.\n";
    text += "RUNS = [\n" + calls.runs.lines() + "]\n";
  } else {
    text += "# Each of these modules is recomputed in backward, alone.\n";
    text += "RECOMPUTED = [\n" + calls.modules.lines() + "]\n";
  }
  if (calls.has_keeps) {
    text += "# Kernels whose results are kept from forward, by the module that calls them.\n";
    text += std::string(kKeepPolicy) + "KEPT = [\n" + kept_text(answer) + "]\n";
  }
  text += "# How often forwards run in a forward and backward pass.\n";
  text += "FORWARD_RUNS = dict([\n" + forward_runs_text(answer) + "])\n\n";
  if (calls.has_keeps) text += kKeepCode;
  text += calls.has_runs ? kRunClass : kWrapForward;
  text += "\ndef apply_plan(model):\n";
  text += "    \"\"\"Call this once, before FSDP, DDP or torch.compile wrap the model.\"\"\"\n";
  if (is_hf) {
    text += "    model.config.use_cache = False  # a recompute would fill the cache once more\n";
  }
  if (calls.has_keeps) {
    text +=
        "    for path, kernels in KEPT:\n"
        "        module = model.get_submodule(path)\n"
        "        module.forward = keeping(module.forward, kernels)\n";
  }
  if (calls.has_runs) {
    text += calls.has_keeps ? "    for paths, inside, keeps in RUNS:\n"
                              "        options = {\"context_fn\": keep_context} if keeps else {}\n"
                            : "    for paths, inside, _ in RUNS:\n";
    text += fmt::format("        Run([model.get_submodule(path) for path in paths], inside{})\n",
                        calls.has_keeps ? ", **options" : "");
  } else {
    text +=
        "    for path in RECOMPUTED:\n"
        "        module = model.get_submodule(path)\n"
        "        module.forward = checkpointed(module.forward)\n";
  }
  return text + std::string(kCheck);
}

std::vector<std::string> traps(const ExportAnswer& answer) {
  std::vector<std::string> traps;
  if (answer.exported.layers.regions.empty()) return traps;
  traps.emplace_back(
      "leave the trainer's own gradient checkpointing off: with both, layers are recomputed twice");
  const auto& regions = answer.exported.layers.regions;
  if (std::any_of(regions.begin(), regions.end(),
                  [](const LayerRegion& region) { return region.modules.size() > 1; })) {
    traps.emplace_back(
        "modules that run together show hooks what they are called with, not what they make: ask "
        "for no hidden states of single layers (output_hidden_states)");
  }
  return traps;
}

}  // namespace

ExportTarget pytorch_target() {
  return {.name = "pytorch",
          .title = "PyTorch's torch.utils.checkpoint, around modules of a model",
          .versions = "torch 2.13",
          .vocabulary = {.any_layers = true,
                         .any_runs = true,
                         .nested = true,
                         .keep_lists = true,
                         .module_runs = true,
                         .needs_modules = true},
          .extent = Extent::kPrefix,
          .write = write,
          .traps = traps};
}

}  // namespace cairn
