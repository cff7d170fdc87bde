#pragma once

#include <cmath>
#include <cstdint>

#include "executor/functors/elements.h"

// Random numbers by counter: a number depends on its seed and index alone, so that a recompute
// draws what the forward drew, on every device. Philox 4x32-10 (Salmon et al. 2011, table 2).

namespace cairn {

// 32 random bits.
CAIRN_HOST_DEVICE inline std::uint32_t random_bits(std::uint64_t seed, std::uint64_t counter) {
  std::uint32_t c0 = static_cast<std::uint32_t>(counter);
  std::uint32_t c1 = static_cast<std::uint32_t>(counter >> 32);
  std::uint32_t c2 = 0;
  std::uint32_t c3 = 0;
  std::uint32_t k0 = static_cast<std::uint32_t>(seed);
  std::uint32_t k1 = static_cast<std::uint32_t>(seed >> 32);
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t a = static_cast<std::uint64_t>(0xD2511F53U) * c0;
    const std::uint64_t b = static_cast<std::uint64_t>(0xCD9E8D57U) * c2;
    c0 = static_cast<std::uint32_t>(b >> 32) ^ c1 ^ k0;
    c2 = static_cast<std::uint32_t>(a >> 32) ^ c3 ^ k1;
    c1 = static_cast<std::uint32_t>(b);
    c3 = static_cast<std::uint32_t>(a);
    k0 += 0x9E3779B9U;
    k1 += 0xBB67AE85U;
  }
  return c0;
}

// In [0, 1), 24 bits.
CAIRN_HOST_DEVICE inline double random_uniform(std::uint64_t seed, std::uint64_t counter) {
  return static_cast<double>(random_bits(seed, counter) >> 8) * 0x1p-24;
}

// out = mask * x / (1 - probability); mask is 1 where the element stays.
template <class Real>
struct Dropout {
  Elements out = {};
  Elements mask = {};
  Elements x = {};
  std::uint64_t seed = 0;
  double probability = 0.0;

  CAIRN_HOST_DEVICE void operator()(std::int64_t i) const {
    const bool stays = random_uniform(seed, static_cast<std::uint64_t>(i)) >= probability;
    mask.set<Real>(i, stays ? Real(1) : Real(0));
    const Real factor = static_cast<Real>(1.0 / (1.0 - probability));
    out.set<Real>(i, stays ? x.get<Real>(i) * factor : Real(0));
  }
};

// Independent normal numbers (Box and Muller 1958), and whole ones in [0, bound).
template <class Real>
struct FillNormal {
  Elements out = {};
  std::uint64_t seed = 0;
  double deviation = 0.0;

  CAIRN_HOST_DEVICE void operator()(std::int64_t i) const {
    const std::uint64_t pair = 2 * static_cast<std::uint64_t>(i);
    const double u = 1.0 - random_uniform(seed, pair);
    const double angle = 6.28318530717958647693 * random_uniform(seed, pair + 1);
    out.set<Real>(i,
                  static_cast<Real>(deviation * std::sqrt(-2.0 * std::log(u)) * std::cos(angle)));
  }
};

struct FillIntegers {
  Elements out = {};
  std::uint64_t seed = 0;
  std::int64_t bound = 1;

  CAIRN_HOST_DEVICE void operator()(std::int64_t i) const {
    const std::uint64_t bits = random_bits(seed, static_cast<std::uint64_t>(i));
    out.set_integer(i, static_cast<std::int64_t>(bits % static_cast<std::uint64_t>(bound)));
  }
};

}  // namespace cairn
