#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "graph/graph.h"

// What an optimizer keeps and makes for each parameter that it steps: the bytes of its states, and
// of what is there while it steps. Not when it steps, and what: that is the training step's.

namespace cairn {

// What an optimizer sees of a parameter.
struct SteppedParameter {
  std::string name = {};
  Shape shape = {};                    // empty where only bytes are known (plain graphs)
  DataType type = DataType::kFloat32;  // that it works on: of the master weights, if there are
  std::int64_t bytes = 0;              // in that type
  bool is_table = false;               // of an embedding (torch.nn.Embedding)
  bool is_head = false;                // makes the logits
};

struct OptimizerBytes {
  std::int64_t state_bytes = 0;        // on the device
  std::int64_t paged_state_bytes = 0;  // in unified memory, outside torch's allocator
  // Of lookup tables beside the states, which all parameters of one optimizer share.
  std::int64_t shared_state_bytes = 0;
  // The step of a parameter has two moments: an early one, where there is something then, and its
  // fullest. Carried is what of it is still there in the same moment of the next parameter's.
  std::int64_t early_temporary_bytes = 0;
  std::int64_t early_carried_bytes = 0;
  std::int64_t temporary_bytes = 0;
  std::int64_t carried_bytes = 0;
  std::int64_t part = 0;  // parameters of one part are stepped before those of the next
};

struct OptimizerRule {
  std::function<OptimizerBytes(const SteppedParameter&)> bytes_of = {};  // without: no bytes
  // Of each parameter directly before it is stepped; else of all before the first is.
  bool makes_states_one_by_one = false;
  bool is_per_parameter = false;  // each has an optimizer of its own (in backward)
  // It reads gradients of this type from a buffer that stays (TrainingStep::main_gradient_type).
  std::optional<DataType> main_gradient_type = {};
};

// Counted in tensors of the parameter's type and shape.
struct TensorCounts {
  std::int64_t state_count = 0;      // from its first step on
  std::int64_t temporary_count = 0;  // most at once while it steps the parameter
  std::int64_t carried_count = 0;    // of these, still there when the next parameter's are made
};

// Of an optimizer whose states and temporaries are all like the parameter.
OptimizerRule like_parameters(const TensorCounts& counts);

}  // namespace cairn
