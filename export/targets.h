#pragma once

#include "export/target.h"

// One function for each file of export/targets/.

namespace cairn {

ExportTarget pytorch_target();
ExportTarget hf_target();
ExportTarget axolotl_target();
ExportTarget megatron_target();
ExportTarget torchtitan_target();
ExportTarget deepspeed_target();
ExportTarget fsdp_target();
ExportTarget accelerate_target();
ExportTarget lightning_target();
ExportTarget llama_factory_target();
ExportTarget torchtune_target();
ExportTarget unsloth_target();
ExportTarget llm_foundry_target();
ExportTarget olmo_core_target();
ExportTarget automodel_target();
ExportTarget colossalai_target();
ExportTarget primus_target();
ExportTarget jax_target();
ExportTarget flax_target();
ExportTarget keras_target();
ExportTarget maxtext_target();
ExportTarget mlx_target();
ExportTarget tensorflow_target();
ExportTarget paddle_target();
ExportTarget json_target();

}  // namespace cairn
