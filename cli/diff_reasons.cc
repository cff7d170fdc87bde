#include "cli/diff_reasons.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <map>

#include "graph/data_type.h"
#include "graph/grouped_text.h"
#include "graph/precision.h"
#include "models/training_keys.h"

namespace cairn {
namespace {

using Side = std::pair<const LoadedModel*, const Evaluation*>;

// The type that most bytes of the parameters have, or of those that are trained.
std::string main_type(const LoadedModel& model, bool of_trained) {
  std::map<DataType, std::int64_t> bytes;
  for (const Tensor& tensor : model.graph.tensors) {
    if (tensor.role != TensorRole::kParameter || (of_trained && !tensor.requires_grad)) continue;
    bytes[tensor.data_type] += tensor.bytes;
  }
  const auto most = std::max_element(
      bytes.begin(), bytes.end(), [](const auto& x, const auto& y) { return x.second < y.second; });
  return most == bytes.end() ? "" : std::string(data_type_name(most->first));
}

// One thing that decides bytes: "851,968", of " trained parameters".
struct Cause {
  std::string value = {};
  std::string what = {};
};

Cause trained_parameters(const LoadedModel& model) {
  return {grouped_text(trainable_parameter_count(model.graph)), " trained parameters"};
}

// Quantised weights are most of a model's.
Cause weights_type(const LoadedModel& model) {
  if (!model.recipe.quantization) return {main_type(model, false)};
  return {std::string(quantized_format_name(model.recipe.quantization->format))};
}

// What decides the bytes of a category, in the order in which a difference is named.
std::vector<Cause> causes(const Side& side, MemoryCategory category) {
  const LoadedModel& model = *side.first;
  switch (category) {
    case MemoryCategory::kParameters:
      return {weights_type(model), {main_type(model, false)}};
    case MemoryCategory::kGradients:
      return {trained_parameters(model), {main_type(model, true)}};
    case MemoryCategory::kOptimizer:
      return {trained_parameters(model),
              {model.recipe.optimizer},
              {std::string(data_type_name(model.recipe.optimizer_state_type.value_or(
                  state_type(model.recipe.precision))))}};
    case MemoryCategory::kSavedActivations:
      return {{side.second->name}, {std::string(precision_name(model.recipe.precision))}};
    default:
      return {};
  }
}

}  // namespace

std::vector<DiffReason> diff_reasons(const LoadedModel& a, const Evaluation& a_evaluation,
                                     const LoadedModel& b, const Evaluation& b_evaluation) {
  std::vector<DiffReason> reasons;
  if (a.family.empty() || b.family.empty()) return reasons;  // a plain graph knows bytes only
  for (std::size_t i = 0; i < kMemoryCategoryCount; ++i) {
    const auto category = static_cast<MemoryCategory>(i);
    const std::int64_t bytes =
        b_evaluation.trace.peak_breakdown[i] - a_evaluation.trace.peak_breakdown[i];
    if (bytes == 0) continue;
    const std::vector<Cause> of_a = causes({&a, &a_evaluation}, category);
    const std::vector<Cause> of_b = causes({&b, &b_evaluation}, category);
    for (std::size_t cause = 0; cause < of_a.size(); ++cause) {
      const Cause& its = of_b[cause];
      if (of_a[cause].value == its.value) continue;
      reasons.push_back(
          {bytes, fmt::format("{}: {} instead of {}{}", memory_category_name(category), its.value,
                              of_a[cause].value, its.what)});
      break;
    }
  }
  std::stable_sort(reasons.begin(), reasons.end(), [](const DiffReason& x, const DiffReason& y) {
    return std::abs(x.bytes) > std::abs(y.bytes);
  });
  return reasons;
}

}  // namespace cairn
