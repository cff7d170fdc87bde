#pragma once

#include <filesystem>

#include "cli/executed_plan.h"
#include "planner/evaluation.h"

// The numbers of one training step as files that NumPy reads: NAME.npy for each input and parameter
// as they were before it and for what each op made, NAME.grad.npy for the gradients of parameters
// and of inputs that require one. bf16 is written as float32.

namespace cairn {

// Runs one training step of its own. Makes the folder where it is missing; throws InputError where
// a file cannot be written, and DeviceError.
void save_tensors(const Execution& execution, const Evaluation& evaluation,
                  const std::filesystem::path& folder);

}  // namespace cairn
