#include "graph/optimizer_rule.h"

#include <string_view>

#include "graph/checked.h"

namespace cairn {

OptimizerRule like_parameters(const TensorCounts& counts) {
  return {.bytes_of = [counts](const SteppedParameter& parameter) {
    const auto times = [&](std::int64_t count, std::string_view what) {
      return checked_multiply(parameter.bytes, count, what, parameter.name);
    };
    constexpr std::string_view kTemporaries = "parameter '{}': temporaries of the optimizer";
    return OptimizerBytes{
        .state_bytes = times(counts.state_count, "parameter '{}': optimizer states"),
        .temporary_bytes = times(counts.temporary_count, kTemporaries),
        .carried_bytes = times(counts.carried_count, kTemporaries)};
  }};
}

}  // namespace cairn
