#pragma once

#include <string>
#include <vector>

#include "cli/step_names.h"
#include "models/load_model.h"

// Why the peaks of two configurations differ: what was asked for differently, for each category.

namespace cairn {

struct DiffReason {
  std::int64_t bytes = 0;  // of B over A, at their peaks
  std::string text = {};   // "parameters: fp32 instead of bf16"
};

// The categories that differ and for which the two models say why, the largest difference first.
std::vector<DiffReason> diff_reasons(const LoadedModel& a, const Evaluation& a_evaluation,
                                     const LoadedModel& b, const Evaluation& b_evaluation);

}  // namespace cairn
