#include <fmt/format.h>

#include "export/export_plan.h"
#include "export/targets.h"

// ColossalAI's HybridParallelPlugin (colossalai 0.5.0: shardformer/shard/grad_ckpt_config.py and
// shardformer/modeling/): of each pipeline stage the first n layers, which of the first n layers of
// a model says each stage's number. The models are those of Transformers.

namespace cairn {
namespace {

constexpr std::string_view kEnable =
    "# On the model, before it is boosted:\n"
    "#   model.gradient_checkpointing_enable({\"use_reentrant\": False})\n";

constexpr std::string_view kConfig = R"(

def gradient_checkpoint_config(layers_per_stage):
    """For HybridParallelPlugin(gradient_checkpoint_config=...). `layers_per_stage`: how many layers
    each stage has, in the order of the model, of interleaved stages each chunk by itself."""
    counts, before = [], 0
    for layers in layers_per_stage:
        counts.append(min(max(FIRST_LAYERS - before, 0), layers))
        before += layers
    return PipelineGradientCheckpointConfig(num_ckpt_layers_per_stage=counts)
)";

bool is_some(const LayerPlan& plan) {
  return !plan.regions.empty() && plan_form(plan).kind != PlanKind::kAll;
}

std::string write(const ExportAnswer& answer) {
  const LayerPlan& plan = answer.exported.layers;
  if (plan.regions.empty()) {
    return "# Nothing is recomputed: leave out gradient_checkpointing_enable() and\n"
           "# gradient_checkpoint_config.\n";
  }
  if (!is_some(plan)) {
    return std::string(kEnable) +
           "# All layers of all stages: leave out "
           "gradient_checkpoint_config.\n";
  }
  return fmt::format(
      "from colossalai.shardformer import PipelineGradientCheckpointConfig\n\n{}"
      "# The first layers of the model, which are recomputed.\nFIRST_LAYERS = {}\n{}",
      kEnable, *first_layers(plan), kConfig);
}

std::vector<std::string> traps(const ExportAnswer& answer) {
  if (!is_some(answer.exported.layers)) return {};
  return {
      "gradient_checkpoint_config needs two pipeline stages or more (pp_size): without them all "
      "layers are recomputed",
      "its pipelines of Llama, Mistral, Qwen2 and Command read it; of others all layers are "
      "recomputed",
      "peak and slowdown are of the whole model, not of one stage"};
}

}  // namespace

ExportTarget colossalai_target() {
  return {.name = "colossalai",
          .title = "ColossalAI's HybridParallelPlugin",
          .versions = "colossalai 0.5.0",
          .library = "hf",
          .vocabulary = {.first_layers = true, .needs_one_list = true},
          .extent = Extent::kPrefix,
          .write = write,
          .traps = traps};
}

}  // namespace cairn
