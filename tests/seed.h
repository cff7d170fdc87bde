#pragma once

#include <cstdint>

namespace cairn {

// The seed of every random test: 1, or N from `cairn_tests --seed=N`. A random test states it,
// `INFO("--seed=", test_seed())`, so that a failure can be run again.
std::uint64_t test_seed();

}  // namespace cairn
