#pragma once

#include <cstdint>
#include <map>
#include <random>
#include <tuple>
#include <vector>

#include "planner/chain.h"
#include "planner/chain_solver.h"

// The recurrence of a chain once more, plainly: what the chain solver is compared with.

namespace cairn {

class ChainReference {
 public:
  explicit ChainReference(const Chain& chain) : chain_(chain) {}
  // kInfiniteCost when nothing fits.
  std::int64_t cost(std::int64_t budget_bytes) { return root(budget_bytes - chain_.base_bytes, 0); }

 private:
  std::int64_t root(std::int64_t bytes, std::int64_t first);
  std::int64_t nested(std::int64_t bytes, std::int64_t first, std::int64_t last);

  const Chain& chain_;
  std::map<std::pair<std::int64_t, std::int64_t>, std::int64_t> root_ = {};
  std::map<std::tuple<std::int64_t, std::int64_t, std::int64_t>, std::int64_t> nested_ = {};
};

// The least budget that a plan needs, by the same rules.
std::int64_t need_of(const Chain& chain, const std::vector<ChainItem>& items);

// Layers that save input, output and auxiliaries: `inputs` has x_0 ... x_n, `saved` what layer i
// keeps with its output x_{i+1} (never less than it), `workspaces` of a forward that keeps it.
// `other_workspaces`: of sweep and backward, the same unless given.
Chain saved_chain(const std::vector<std::int64_t>& inputs, const std::vector<std::int64_t>& saved,
                  const std::vector<std::int64_t>& workspaces,
                  const std::vector<std::int64_t>& costs,
                  const std::vector<std::int64_t>& other_workspaces = {});

// x_0 no longer counts; its gradient still does.
void make_first_input_resident(Chain& chain);

struct RandomChain {
  int least_blocks = 1;
  int most_blocks = 7;
  bool has_options = false;
  std::int64_t bytes_per_unit = 1;  // above 1: sizes without a common divisor
};

// Any numbers at all: the recurrence does not ask whether a graph has them.
Chain random_chain(std::mt19937_64& random, const RandomChain& options);

}  // namespace cairn
