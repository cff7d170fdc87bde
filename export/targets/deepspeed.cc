#include "export/export_plan.h"
#include "export/targets.h"

// DeepSpeed's configuration of a PipelineModule (deepspeed 0.19.8: runtime/pipe/module.py and
// engine.py): runs of k modules of its list, which has the embedding in it too, so that only k = 1
// has its edges at layers. Its section activation_checkpointing says how checkpoints are stored and
// chooses none. DeepSpeed reads its files with hjson, which takes comments. Its checkpoint that is
// not reentrant (runtime/activation_checkpointing/checkpointing.py) runs the whole forward again.

namespace cairn {
namespace {

std::string write(const ExportAnswer& answer) {
  if (answer.exported.layers.regions.empty()) {
    return "{\n  \"pipeline\": {\n    \"activation_checkpoint_interval\": 0\n  }\n}\n";
  }
  return "{\n  \"pipeline\": {\n    \"activation_checkpoint_interval\": 1,\n"
         "    \"use_reentrant\": false\n  }\n}\n";
}

std::vector<std::string> traps(const ExportAnswer& answer) {
  if (answer.exported.layers.regions.empty()) {
    return {"0 leaves the PipelineModule's own activation_checkpoint_interval as it is"};
  }
  return {
      "only a PipelineModule reads this; checkpoints in any other model are those of its code: for "
      "them export to pytorch",
      "pass checkpointable_layers=[name of the layers' class] to the PipelineModule: without it "
      "the embedding and the head are recomputed too"};
}

}  // namespace

ExportTarget deepspeed_target() {
  return {.name = "deepspeed",
          .title = "DeepSpeed's PipelineModule",
          .versions = "deepspeed 0.19.8",
          .extent = Extent::kWhole,
          .behaviour = {.is_torch = false},
          .comment = "// ",
          .write = write,
          .traps = traps};
}

}  // namespace cairn
