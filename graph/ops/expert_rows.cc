#include "graph/ops/expert_rows.h"

#include <fmt/format.h>

#include <cmath>

#include "graph/checked.h"
#include "graph/error.h"

namespace cairn {
namespace {

constexpr double kMostRows = 9007199254740992.0;  // 2^53: up to here doubles are exact

std::int64_t rounded_up(double rows) {
  const double whole = std::ceil(rows);
  if (whole < kMostRows) return static_cast<std::int64_t>(whole);
  throw InputError(fmt::format("{} rows of experts are too many", rows));
}

}  // namespace

std::int64_t expert_rows(const ExpertLoad& load) {
  const auto rows = static_cast<double>(load.rows);
  if (load.capacity > 0.0) {
    const auto experts = static_cast<double>(load.experts);
    return checked_multiply(load.experts, rounded_up(rows / experts * load.capacity), "{}",
                            "rows of experts");
  }
  return load.imbalance == 1.0 ? load.rows : rounded_up(rows * load.imbalance);
}

double most_expert_imbalance(std::int64_t experts, std::int64_t experts_per_token) {
  return static_cast<double>(experts) / static_cast<double>(experts_per_token);
}

}  // namespace cairn
