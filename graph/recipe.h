#pragma once

#include <string>
#include <vector>

#include "graph/data_type.h"
#include "graph/training_step.h"

// How a model is trained, as far as it decides bytes and FLOPs.

namespace cairn {

struct Recipe {
  // Parameters, activations and gradients are all of this type ("pure" precision).
  DataType precision = DataType::kBFloat16;
  std::string optimizer = "adamw";
  // An implementation the family names (eager, sdpa, flash); "" is the family's default.
  std::string attention = {};
  // Rows of the worst rank's experts over the mean, of an expert-parallel group; 1: balanced.
  double expert_imbalance = 1.0;
  // An expert's most rows over the mean (GShard, Switch); 0: dropless, every token is served.
  double expert_capacity = 0.0;
  // Patterns of modules and parameters that are not trained, and of all that are; empty: all are.
  std::vector<std::string> freeze = {};
  std::vector<std::string> train_only = {};
  TrainingStep step = {};
};

}  // namespace cairn
