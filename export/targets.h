#pragma once

#include "export/target.h"

// One function for each file of export/targets/.

namespace cairn {

ExportTarget pytorch_target();
ExportTarget hf_target();
ExportTarget axolotl_target();
ExportTarget megatron_target();
ExportTarget json_target();

}  // namespace cairn
