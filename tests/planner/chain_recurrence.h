#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <tuple>
#include <vector>

#include "planner/chain.h"

// The recurrence of docs/accounting.md, section 6, in the terms of planner/chain.h and written down
// as it reads: an oracle for solvers of small chains.

namespace cairn::test {

class ChainRecurrence {
 public:
  explicit ChainRecurrence(const Chain& chain) : chain_(chain) {}

  // The least extra cost of regions, nested or with one of the chain's keep lists, that stay within
  // a budget, base included. Empty when none does.
  std::optional<std::int64_t> least_extra_cost(std::int64_t budget_bytes);

 private:
  using Cost = std::optional<std::int64_t>;

  Cost root(std::size_t first, std::int64_t bytes);
  Cost recompute(std::size_t first, std::size_t last, std::int64_t bytes);
  std::int64_t sweep_peak_bytes(std::size_t first, std::size_t end) const;
  std::int64_t sweep_cost(std::size_t first, std::size_t end) const;
  std::int64_t parameter_gradient_bytes(std::size_t first, std::size_t end) const;

  const Chain& chain_;
  std::map<std::pair<std::size_t, std::int64_t>, Cost> root_known_ = {};
  std::map<std::tuple<std::size_t, std::size_t, std::int64_t>, Cost> recompute_known_ = {};
};

}  // namespace cairn::test
