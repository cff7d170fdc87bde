#pragma once

#include <array>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "graph/precision.h"
#include "graph/training_step.h"

// How a model is trained, as far as it decides bytes and FLOPs.

namespace cairn {

// What may be run by one library's kernels or another's. A family names its choices for each.
inline constexpr std::array<std::string_view, 5> kImplementationOptions = {"attention", "norm",
                                                                           "rope", "mlp", "loss"};

struct Recipe {
  Precision precision = {};
  std::string optimizer = "adamw";
  // The choice for some of kImplementationOptions ({"norm", "liger"}); without, or "", the family's
  // default.
  std::map<std::string, std::string> implementations = {};
  // Rows of the worst rank's experts over the mean, of an expert-parallel group; 1: balanced.
  double expert_imbalance = 1.0;
  // An expert's most rows over the mean (GShard, Switch); 0: dropless, every token is served.
  double expert_capacity = 0.0;
  TrainingStep step = {};
  // Patterns of modules and parameters that are not trained, and of all that are; empty: all are.
  std::vector<std::string> freeze = {};
  std::vector<std::string> train_only = {};
};

}  // namespace cairn
