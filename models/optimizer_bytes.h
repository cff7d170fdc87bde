#pragma once

#include <cstdint>

#include "graph/optimizer_rule.h"

// The bytes of optimizers whose states or temporaries are not like the parameter. All need shapes.

namespace cairn {

// bitsandbytes 0.50.2, optim/optimizer.py: states of fp32, or of a byte with an fp32 scale for each
// 256. Its kernels work in place.
struct BitsAndBytes {
  std::int64_t state_count = 2;
  bool is_8bit = true;
  bool is_paged = false;
  // Of tables 32 bits (transformers 5.17.0, trainer.py: register_module_override, optim_bits 32).
  bool has_full_embeddings = false;
};
OptimizerBytes bitsandbytes_bytes(const BitsAndBytes& optimizer, const SteppedParameter& parameter);

// torchao 0.18.0, optim/adam.py: two states, quantised in blocks of 256, with a lookup table each.
struct TorchAo {
  std::int64_t code_bits = 8;
  std::int64_t table_entries = 256;
};
OptimizerBytes torchao_bytes(const TorchAo& optimizer, const SteppedParameter& parameter);

// transformers 5.17.0, optimization.py, as its Trainer makes it; torch 2.13, optim/_adafactor.py.
OptimizerBytes adafactor_bytes(const SteppedParameter& parameter);
OptimizerBytes torch_adafactor_bytes(const SteppedParameter& parameter);
OptimizerBytes torch_adafactor_foreach_bytes(const SteppedParameter& parameter);

// torch 2.13, optim/_muon.py: of matrices but tables and the head.
bool is_stepped_by_muon(const SteppedParameter& parameter);
OptimizerBytes muon_bytes(const SteppedParameter& parameter);

}  // namespace cairn
