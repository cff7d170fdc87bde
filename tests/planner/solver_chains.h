#pragma once

#include <cstdint>
#include <random>
#include <vector>

#include "planner/chain.h"
#include "planner/chain_solver.h"

// What plans of a chain need, and chains to solve.

namespace cairn {

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
