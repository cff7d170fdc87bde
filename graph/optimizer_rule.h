#pragma once

#include <cstdint>

namespace cairn {

// What an optimizer makes of a trainable parameter, counted in tensors of its type and shape.
struct OptimizerRule {
  std::int64_t state_count = 0;      // from its first step on
  std::int64_t temporary_count = 0;  // most at once while it steps the parameter
  std::int64_t carried_count = 0;    // of these, still there when the next parameter's are made
};

}  // namespace cairn
