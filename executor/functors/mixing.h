#pragma once

#include <cstdint>

#include "executor/functors/elements.h"
#include "executor/functors/random.h"

// Numbers in [0, 1) that depend on every bit of what they are made of.

namespace cairn {

struct FillUniform {
  Elements out = {};
  std::uint64_t seed = 0;

  CAIRN_HOST_DEVICE void operator()(std::int64_t i) const {
    out.set<float>(i, static_cast<float>(random_uniform(seed, static_cast<std::uint64_t>(i))));
  }
};

// out = a random number of its bits and those of x, whose numbers are read again where it has
// fewer.
struct Mix {
  Elements out = {};
  Elements x = {};
  std::int64_t x_count = 0;
  std::uint64_t salt = 0;

  CAIRN_HOST_DEVICE void operator()(std::int64_t i) const {
    const std::uint64_t a = bits(out.get<float>(i));
    const std::uint64_t b = bits(x.get<float>(i % x_count));
    out.set<float>(i, static_cast<float>(random_uniform(salt, (a << 32) | b)));
  }

  CAIRN_HOST_DEVICE static std::uint32_t bits(float value) {
    std::uint32_t word;
    std::memcpy(&word, &value, sizeof(word));
    return word;
  }
};

}  // namespace cairn
