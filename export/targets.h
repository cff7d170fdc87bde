#pragma once

#include "export/target.h"

// One function for each file of export/targets/.

namespace cairn {

ExportTarget pytorch_target();
ExportTarget hf_target();
ExportTarget axolotl_target();
ExportTarget megatron_target();
ExportTarget primus_target();
ExportTarget jax_target();
ExportTarget flax_target();
ExportTarget keras_target();
ExportTarget maxtext_target();
ExportTarget mlx_target();
ExportTarget tf_target();
ExportTarget paddle_target();
ExportTarget json_target();

}  // namespace cairn
