#include "export/targets.h"

#include <fmt/format.h>

#include "graph/error.h"

namespace cairn {

const std::vector<ExportTarget>& export_targets() {
  static const std::vector<ExportTarget> targets = {
      pytorch_target(),       fsdp_target(),        hf_target(),        axolotl_target(),
      llama_factory_target(), unsloth_target(),     torchtune_target(), accelerate_target(),
      lightning_target(),     torchtitan_target(),  megatron_target(),  primus_target(),
      automodel_target(),     llm_foundry_target(), olmo_core_target(), deepspeed_target(),
      colossalai_target(),    jax_target(),         flax_target(),      keras_target(),
      maxtext_target(),       tensorflow_target(),  mlx_target(),       paddle_target(),
      json_target(),
  };
  return targets;
}

const ExportTarget& find_export_target(std::string_view name) {
  std::vector<std::string> names;
  for (const ExportTarget& target : export_targets()) {
    if (target.name == name) return target;
    names.emplace_back(target.name);
  }
  throw InputError(fmt::format("--to: expected one of {}, found '{}'{}", join_names(names), name,
                               did_you_mean(name, names)));
}

}  // namespace cairn
