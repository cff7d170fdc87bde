#include <fmt/format.h>

#include "export/export_plan.h"
#include "export/layer_lines.h"
#include "export/targets.h"

// Transformers' Trainer and what is built on it (TRL, PEFT). A set of layers takes a flag for each,
// which the Trainer sets again when it trains: so what sets them is wrapped.

namespace cairn {
namespace {

constexpr std::string_view kCheck = R"(

def check_plan(model, step):
    """Turns the plan on, and checks in one `step()`, which has to run forward and backward once,
    that each layer runs as often as planned. The model has to be in training mode."""
    runs = collections.Counter()
    hooks = []
    for path in LAYER_RUNS:
        hook = functools.partial(lambda path, *_: runs.update([path]), path)
        hooks.append(model.get_submodule(path).register_forward_pre_hook(hook))
)";

constexpr std::string_view kCheckEnd = R"(    step()
    for hook in hooks:
        hook.remove()
    wrong = {path: runs[path] for path in LAYER_RUNS if runs[path] != LAYER_RUNS[path]}
    assert not wrong, f"forward runs differ from LAYER_RUNS: {wrong}"
)";

constexpr std::string_view kApply = R"(

def apply_plan(model):
    """Call this before the Trainer is made. Whatever turns checkpointing on then leaves it on in
    these layers alone."""
    enable = model.gradient_checkpointing_enable

    @functools.wraps(enable)
    def enable_some(*args, **kwargs):
        enable(*args, **kwargs)
        for path in LAYER_RUNS:
            model.get_submodule(path).gradient_checkpointing = path in RECOMPUTED

    model.gradient_checkpointing_enable = enable_some
)";

enum class Form { kNone, kAll, kEveryKth, kSet };

Form form_of(const LayerPlan& plan) {
  switch (plan_form(plan).kind) {
    case PlanKind::kNone:
      return Form::kNone;
    case PlanKind::kAll:
      return Form::kAll;
    default:
      return every_kth(plan, EveryKth::kFromFirst) ? Form::kEveryKth : Form::kSet;
  }
}

std::string arguments_text(const LayerPlan& plan) {
  const Form form = form_of(plan);
  std::string text =
      "# Of TrainingArguments, and of TRL's SFTConfig and the like: TrainingArguments(**ARGUMENTS, "
      "...).\n";
  if (form == Form::kNone) return text + "ARGUMENTS = {\"gradient_checkpointing\": False}\n";
  text +=
      "ARGUMENTS = {\n    \"gradient_checkpointing\": True,\n"
      "    \"gradient_checkpointing_kwargs\": {\"use_reentrant\": False";
  if (form == Form::kEveryKth) {
    text += fmt::format(", \"every_n_layers\": {}", *every_kth(plan, EveryKth::kFromFirst));
  }
  return text + "},\n}\n";
}

std::string write(const ExportAnswer& answer) {
  const LayerPlan& plan = answer.exported.layers;
  const Form form = form_of(plan);
  std::string text = "import collections\nimport functools\n\n" + arguments_text(plan);
  text += "# How often each layer's forward runs in a forward and backward pass.\n";
  text += "LAYER_RUNS = dict([\n" + layer_run_lines(answer) + "])\n";
  if (form == Form::kSet) {
    text += "RECOMPUTED = {\n" + recomputed_path_lines(answer) + "}\n" + std::string(kApply);
  }
  text += kCheck;
  if (form == Form::kSet) text += "    apply_plan(model)\n";
  if (form == Form::kEveryKth) {
    text += fmt::format(
        "    model.gradient_checkpointing_enable({{\"use_reentrant\": False}}, "
        "every_n_layers={})\n",
        *every_kth(plan, EveryKth::kFromFirst));
  } else if (form != Form::kNone) {
    text += "    model.gradient_checkpointing_enable({\"use_reentrant\": False})\n";
  }
  return text + std::string(kCheckEnd);
}

std::vector<std::string> traps(const ExportAnswer& answer) {
  std::vector<std::string> traps;
  const Form form = form_of(answer.exported.layers);
  if (form == Form::kNone) return traps;
  traps.emplace_back(
      "turn off activation_checkpointing of FSDP: with both, layers are wrapped twice, which the "
      "Trainer refuses");
  if (form == Form::kEveryKth) {
    traps.emplace_back(
        "every_n_layers is new in transformers 5.17, and counts all checkpointed layers of the "
        "model, those of an encoder of images too");
  }
  if (form == Form::kSet) {
    traps.emplace_back(
        "models with code of their own may not read the layers' flags: check_plan "
        "says whether this one does");
  }
  return traps;
}

}  // namespace

ExportTarget hf_target() {
  return {
      .name = "hf",
      .title = "Hugging Face Transformers: Trainer, TRL, PEFT",
      .versions = "transformers >= 4.53",
      .library = "hf",
      .vocabulary = {.every_kth = EveryKth::kFromFirst, .any_layers = true, .needs_modules = true},
      .extent = Extent::kPrefix,
      .write = write,
      .traps = traps};
}

}  // namespace cairn
