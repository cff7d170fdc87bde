#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/json.h"
#include "cli/step_names.h"
#include "models/load_model.h"

// Every term of a peak: how many bytes, by which formula, for whom, and by whose rule.

namespace cairn {

// The same model with one more sample and with one more token: which sizes follow them is read off,
// not guessed. Empty where there are none, or the model does not allow them.
struct Resized {
  std::optional<Graph> with_more_samples = {};
  std::optional<Graph> with_more_tokens = {};
};

struct ExplainedTerm {
  std::string name = {};  // "layers.*.act"
  MemoryCategory category = MemoryCategory::kSavedActivations;
  std::int64_t bytes = 0;    // of all of that name
  std::string formula = {};  // "32 x batch x tokens x 14,336 x 2 B"
  std::string reason = {};   // why it is live
  std::string source = {};   // of the op's rule; "" where none stands behind it
};

// All terms, the largest first: they add up to the peak.
std::vector<ExplainedTerm> explained_terms(const LoadedModel& model, const Evaluation& evaluation,
                                           const Resized& resized);

std::string explanation_text(const LoadedModel& model, const Evaluation& evaluation,
                             const std::vector<ExplainedTerm>& terms);
Json explanation_json(const std::vector<ExplainedTerm>& terms);

}  // namespace cairn
