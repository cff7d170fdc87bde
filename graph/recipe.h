#pragma once

#include <string>

#include "graph/precision.h"
#include "graph/training_step.h"

// How a model is trained, as far as it decides bytes and FLOPs.

namespace cairn {

struct Recipe {
  Precision precision = {};
  std::string optimizer = "adamw";
  // An implementation the family names (eager, sdpa, flash); "" is the family's default.
  std::string attention = {};
  // Rows of the worst rank's experts over the mean, of an expert-parallel group; 1: balanced.
  double expert_imbalance = 1.0;
  // An expert's most rows over the mean (GShard, Switch); 0: dropless, every token is served.
  double expert_capacity = 0.0;
  TrainingStep step = {};
};

}  // namespace cairn
