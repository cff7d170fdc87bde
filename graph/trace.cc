#include "graph/trace.h"

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

}  // namespace cairn
