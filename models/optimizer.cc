#include "models/optimizer.h"

#include <fmt/format.h>

#include <array>

#include "graph/error.h"

namespace cairn {
namespace {

struct OptimizerRow {
  std::string_view name = {};
  std::int64_t state_count = 0;
};

constexpr std::array<OptimizerRow, 5> kOptimizers = {
    {{"adamw", 2}, {"adam", 2}, {"sgd", 0}, {"sgd-momentum", 1}, {"lion", 1}}};

}  // namespace

std::int64_t optimizer_state_count(std::string_view name) {
  for (const OptimizerRow& row : kOptimizers) {
    if (row.name == name) return row.state_count;
  }
  throw InputError(fmt::format("unknown optimizer '{}': expected one of {}{}", name,
                               join_names(optimizer_names()),
                               did_you_mean(name, optimizer_names())));
}

std::vector<std::string> optimizer_names() {
  std::vector<std::string> names;
  for (const OptimizerRow& row : kOptimizers) names.emplace_back(row.name);
  return names;
}

}  // namespace cairn
