#include "graph/trace.h"

#include <array>

#include "graph/error.h"

namespace cairn {

std::string_view memory_category_name(MemoryCategory category) {
  switch (category) {
    case MemoryCategory::kParameters:
      return "parameters";
    case MemoryCategory::kOptimizer:
      return "optimizer";
    case MemoryCategory::kGradients:
      return "gradients";
    case MemoryCategory::kInputs:
      return "inputs";
    case MemoryCategory::kCheckpoints:
      return "checkpoints";
    case MemoryCategory::kSavedActivations:
      return "saved activations";
    case MemoryCategory::kActivationGradients:
      return "activation gradients";
    case MemoryCategory::kLogitsAndLoss:
      return "logits and loss";
    case MemoryCategory::kWorkspace:
      return "workspace";
  }
  CAIRN_CHECK(false, "unknown memory category");
}

std::string_view phase_name(Phase phase) {
  constexpr std::array<std::string_view, kPhaseCount> kNames = {
      "load", "forward", "loss", "backward", "optimizer step", "evaluation", "checkpoint save"};
  return kNames[static_cast<std::size_t>(phase)];
}

}  // namespace cairn
