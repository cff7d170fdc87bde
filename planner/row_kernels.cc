// Compiled with full optimisation in every build (CMakeLists.txt): loops here are meant for the
// vectoriser. The bodies are inlined into a plain function and into one for AVX2.

#include "planner/row_kernels.h"

#include <algorithm>

#if defined(__x86_64__)
#include <immintrin.h>
#define CAIRN_AVX2 [[gnu::target("avx2")]]
#else
#define CAIRN_AVX2
#endif

namespace cairn {
namespace {

[[gnu::always_inline]] inline void sum_body(std::int64_t* __restrict best,
                                            const std::int64_t* __restrict first,
                                            const std::int64_t* __restrict second,
                                            std::int64_t constant, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t cost = first[i] + second[i] + constant;
    best[i] = cost < best[i] ? cost : best[i];
  }
}

[[gnu::always_inline]] inline void row_body(std::int64_t* __restrict best,
                                            const std::int64_t* __restrict row,
                                            std::int64_t constant, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t cost = row[i] + constant;
    best[i] = cost < best[i] ? cost : best[i];
  }
}

[[gnu::always_inline]] inline void constant_body(std::int64_t* __restrict best,
                                                 std::int64_t constant, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) best[i] = constant < best[i] ? constant : best[i];
}

[[gnu::always_inline]] inline std::int64_t least_sum_body(const std::int64_t* __restrict first,
                                                          const std::int64_t* __restrict second,
                                                          std::int64_t count) {
  std::int64_t least = 2 * kInfiniteCost;
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t cost = first[i] + second[i];
    least = cost < least ? cost : least;
  }
  return least;
}

std::int64_t find_promising_plain(const SplitSamples& samples, const float* limits,
                                  std::int64_t begin, std::int64_t end, std::uint32_t& chunks) {
  for (std::int64_t split = begin; split < end; ++split) {
    const auto cost = static_cast<float>(samples.costs[split] - samples.less_cost);
    const float* const left = samples.left + split * kChunks;
    const float* const right = samples.right + split * kChunks;
    std::uint32_t found = 0;
    for (int chunk = 0; chunk < kChunks; ++chunk) {
      const bool is_below = (left[chunk] + right[chunk]) + cost < limits[chunk];
      found |= static_cast<std::uint32_t>(is_below) << chunk;
    }
    if (found != 0) {
      chunks = found;
      return split;
    }
  }
  return end;
}

#if defined(__x86_64__)
static_assert(kChunks == 16);

CAIRN_AVX2 std::int64_t find_promising_avx2(const SplitSamples& samples, const float* limits,
                                            std::int64_t begin, std::int64_t end,
                                            std::uint32_t& chunks) {
  const __m256 limits_low = _mm256_loadu_ps(limits);
  const __m256 limits_high = _mm256_loadu_ps(limits + 8);
  for (std::int64_t split = begin; split < end; ++split) {
    const __m256 cost =
        _mm256_set1_ps(static_cast<float>(samples.costs[split] - samples.less_cost));
    const float* const left = samples.left + split * kChunks;
    const float* const right = samples.right + split * kChunks;
    const __m256 low = _mm256_add_ps(_mm256_loadu_ps(left), _mm256_loadu_ps(right));
    const __m256 high = _mm256_add_ps(_mm256_loadu_ps(left + 8), _mm256_loadu_ps(right + 8));
    const __m256 is_low = _mm256_cmp_ps(_mm256_add_ps(low, cost), limits_low, _CMP_LT_OQ);
    const __m256 is_high = _mm256_cmp_ps(_mm256_add_ps(high, cost), limits_high, _CMP_LT_OQ);
    const int found = _mm256_movemask_ps(is_low) | (_mm256_movemask_ps(is_high) << 8);
    if (found != 0) {
      chunks = static_cast<std::uint32_t>(found);
      return split;
    }
  }
  return end;
}

const bool kHasAvx2 = __builtin_cpu_supports("avx2") != 0;
#else
constexpr bool kHasAvx2 = false;
constexpr auto find_promising_avx2 = find_promising_plain;
#endif

CAIRN_AVX2 void sum_avx2(std::int64_t* best, const std::int64_t* first, const std::int64_t* second,
                         std::int64_t constant, std::int64_t count) {
  sum_body(best, first, second, constant, count);
}
CAIRN_AVX2 void row_avx2(std::int64_t* best, const std::int64_t* row, std::int64_t constant,
                         std::int64_t count) {
  row_body(best, row, constant, count);
}
CAIRN_AVX2 void constant_avx2(std::int64_t* best, std::int64_t constant, std::int64_t count) {
  constant_body(best, constant, count);
}
CAIRN_AVX2 std::int64_t least_sum_avx2(const std::int64_t* first, const std::int64_t* second,
                                       std::int64_t count) {
  return least_sum_body(first, second, count);
}

}  // namespace

void take_least_sum(std::int64_t* best, const std::int64_t* first, const std::int64_t* second,
                    std::int64_t constant, std::int64_t count) {
  if (kHasAvx2) return sum_avx2(best, first, second, constant, count);
  sum_body(best, first, second, constant, count);
}

void take_least_row(std::int64_t* best, const std::int64_t* row, std::int64_t constant,
                    std::int64_t count) {
  if (kHasAvx2) return row_avx2(best, row, constant, count);
  row_body(best, row, constant, count);
}

void take_least_constant(std::int64_t* best, std::int64_t constant, std::int64_t count) {
  if (kHasAvx2) return constant_avx2(best, constant, count);
  constant_body(best, constant, count);
}

std::int64_t least_sum(const std::int64_t* first, const std::int64_t* second, std::int64_t count) {
  return kHasAvx2 ? least_sum_avx2(first, second, count) : least_sum_body(first, second, count);
}

std::int64_t find_at_most(const std::int64_t* first, const std::int64_t* second, std::int64_t limit,
                          std::int64_t count) {
  constexpr std::int64_t kStep = 32;
  for (std::int64_t begin = 0; begin < count; begin += kStep) {
    const std::int64_t end = std::min(begin + kStep, count);
    if (least_sum(first + begin, second + begin, end - begin) > limit) continue;
    for (std::int64_t i = begin; i < end; ++i) {
      if (first[i] + second[i] <= limit) return i;
    }
  }
  return count;
}

std::int64_t find_promising(const SplitSamples& samples, const float* limits, std::int64_t begin,
                            std::int64_t end, std::uint32_t& chunks) {
  return kHasAvx2 ? find_promising_avx2(samples, limits, begin, end, chunks)
                  : find_promising_plain(samples, limits, begin, end, chunks);
}

}  // namespace cairn
