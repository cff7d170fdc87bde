#pragma once

#include <string>

#include "cli/json.h"
#include "cli/step_names.h"

// The peaks of a training run, from load to checkpoint save, for people and for machines.

namespace cairn {

// One line for each phase.
std::string phases_text(const Graph& graph, const Evaluation& evaluation,
                        const ForwardPeak& without_gradients);

// [{"phase": "forward", "first_step_bytes": ..., "bytes": ..., "at": ...}, ...].
Json phases_json(const Graph& graph, const Evaluation& evaluation,
                 const ForwardPeak& without_gradients);

}  // namespace cairn
