#pragma once

#include <cstdint>

// How many rows the experts of one GPU compute in a layer.

namespace cairn {

struct ExpertLoad {
  std::int64_t rows = 0;  // tokens * experts a token takes
  std::int64_t experts = 0;
  double imbalance = 1.0;
  double capacity = 0.0;
};

// Dropless: `rows`; with `imbalance`, rounded up, those of the worst rank of an expert-parallel
// group whose ranks have as many tokens each. With `capacity` every expert takes at most
// ceil(rows / experts * capacity) rows and is padded to that, so that no rank has more or less:
// GShard and Switch, Megatron's moe_pad_expert_input_to_capacity (get_capacity in moe_utils.py).
// Throws InputError where the answer passes 2^53.
std::int64_t expert_rows(const ExpertLoad& load);

// The largest imbalance and capacity: one rank's, one expert's rows are all there are.
double most_expert_imbalance(std::int64_t experts, std::int64_t experts_per_token);

}  // namespace cairn
