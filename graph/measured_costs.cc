#include "graph/measured_costs.h"

#include <fmt/format.h>

#include <string_view>
#include <unordered_map>

#include "graph/checked.h"
#include "graph/error.h"

namespace cairn {
namespace {

constexpr std::size_t kMostNames = 5;

// "a, b, c and 7 more".
std::string some_of(const std::vector<std::string>& names) {
  std::string text;
  for (std::size_t i = 0; i < names.size() && i < kMostNames; ++i) {
    text += (i == 0 ? "" : ", ") + names[i];
  }
  if (names.size() > kMostNames) text += fmt::format(" and {} more", names.size() - kMostNames);
  return text;
}

}  // namespace

std::int64_t rest_ns(const MeasuredCosts& costs) {
  return checked_add(costs.optimizer.median_ns, costs.overhead.median_ns,
                     "the time of a step besides its ops");
}

void set_measured_times(Graph& graph, const MeasuredCosts& costs) {
  std::unordered_map<std::string_view, const MeasuredOp*> measured;
  for (const MeasuredOp& op : costs.ops) measured[op.name] = &op;
  std::vector<std::string> missing;
  for (Op& op : graph.ops) {
    const auto found = measured.find(op.name);
    if (found == measured.end()) {
      missing.push_back(fmt::format("op '{}'", op.name));
      continue;
    }
    op.forward.measured_ns = found->second->forward.median_ns;
    if (!op.has_backward) continue;
    if (!found->second->backward) {
      missing.push_back(fmt::format("the Backward of op '{}'", op.name));
      continue;
    }
    op.backward.measured_ns = found->second->backward->median_ns;
  }
  if (missing.empty()) return;
  throw InputError(
      fmt::format("expected a measured time of every op of the graph, found none of "
                  "{}",
                  some_of(missing)));
}

}  // namespace cairn
