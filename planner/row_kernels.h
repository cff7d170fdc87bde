#pragma once

#include <cstdint>

// The inner loops of the nested table, on rows of costs by slots of memory. Each exists twice, for
// any processor and for those with AVX2; the answers are the same.

namespace cairn {

inline constexpr std::int64_t kInfiniteCost = INT64_MAX / 4;  // two of them still add up

// A row's samples: its costs at the upper ends of so many equal chunks of the slots.
inline constexpr int kChunks = 16;

// best[i] = min(best[i], first[i] + second[i] + constant)
void take_least_sum(std::int64_t* best, const std::int64_t* first, const std::int64_t* second,
                    std::int64_t constant, std::int64_t count);
// best[i] = min(best[i], row[i] + constant)
void take_least_row(std::int64_t* best, const std::int64_t* row, std::int64_t constant,
                    std::int64_t count);
void take_least_constant(std::int64_t* best, std::int64_t constant, std::int64_t count);

// The first i with first[i] + second[i] <= limit, or `count`.
std::int64_t find_at_most(const std::int64_t* first, const std::int64_t* second, std::int64_t limit,
                          std::int64_t count);
std::int64_t least_sum(const std::int64_t* first, const std::int64_t* second, std::int64_t count);

// The ways to split a range, side by side: samples of both parts, and a cost that each way adds.
struct SplitSamples {
  const float* left = nullptr;   // kChunks for each split
  const float* right = nullptr;  // the same
  const std::int64_t* costs = nullptr;
  std::int64_t less_cost = 0;  // taken off each of `costs`
};

// The first split in [begin, end) that may be below `limits` (one for each chunk) somewhere, or
// `end`. Bit c of `chunks` says whether it may be so in chunk c.
std::int64_t find_promising(const SplitSamples& samples, const float* limits, std::int64_t begin,
                            std::int64_t end, std::uint32_t& chunks);

}  // namespace cairn
