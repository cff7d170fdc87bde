#include "planner/chain_sums.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <vector>

namespace cairn {
namespace {

constexpr std::int64_t kNever = INT64_MAX / 4;

std::int64_t block_count(const Chain& chain) {
  return static_cast<std::int64_t>(chain.blocks.size());
}

const ChainBlock& block_at(const Chain& chain, std::int64_t i) {
  return chain.blocks[static_cast<std::size_t>(i)];
}

// All that the recompute of a region sees of a block.
using InnerNumbers = std::array<std::int64_t, 11>;

InnerNumbers inner_numbers(const ChainBlock& block) {
  return {block.input_bytes,
          block.sweep_peak_bytes,
          block.sweep_cost,
          block.inner_held_bytes,
          block.inner_forward_peak_bytes,
          block.inner_backward_peak_bytes,
          block.last_peak_bytes,
          block.last_cost,
          block.gradient_bytes,
          block.parameter_gradient_bytes,
          0};
}

// Equal numbers for equal blocks, whatever the caller calls them.
std::vector<std::int32_t> kinds_of(const Chain& chain) {
  std::map<InnerNumbers, std::int32_t> known;
  std::vector<std::int32_t> kinds;
  for (const ChainBlock& block : chain.blocks) {
    const auto next = static_cast<std::int32_t>(known.size());
    kinds.push_back(known.emplace(inner_numbers(block), next).first->second);
  }
  return kinds;
}

void add_sweep_peaks(const Chain& chain, ChainSums& sums) {
  sums.region_sweep_peak_bytes.resize(sums.index.size());
  for (std::int64_t first = 0; first < sums.region_blocks; ++first) {
    const std::int64_t input_bytes = block_at(chain, first).input_bytes;
    std::int64_t peak_bytes = block_at(chain, first).sweep_peak_bytes;
    for (std::int64_t last = first; last < sums.region_blocks; ++last) {
      if (last > first) {
        peak_bytes = std::max(peak_bytes, input_bytes + block_at(chain, last).sweep_peak_bytes);
      }
      sums.region_sweep_peak_bytes[sums.index(first, last)] = peak_bytes;
    }
  }
}

// The least bytes that the recompute of each range needs, above what is held before it.
std::vector<std::int64_t> least_recompute_bytes(const Chain& chain, const ChainSums& sums) {
  std::vector<std::int64_t> needs(sums.index.size());
  std::vector<std::int64_t> later(static_cast<std::size_t>(sums.region_blocks));  // of (i, last)
  for (std::int64_t last = 0; last < sums.region_blocks; ++last) {
    for (std::int64_t first = last; first >= 0; --first) {
      const ChainBlock& block = block_at(chain, first);
      std::int64_t need = block.last_peak_bytes;
      if (first < last) {
        const std::int64_t gradient_bytes = block_at(chain, last).gradient_bytes;
        need = std::max(
            {gradient_bytes + block.inner_forward_peak_bytes,
             block.inner_backward_peak_bytes + sums.parameter_gradient_bytes(first + 1, last + 1),
             block.inner_held_bytes + later[static_cast<std::size_t>(first + 1)]});
        for (std::int64_t split = first + 1; split <= last; ++split) {
          const std::size_t inner = sums.index(first, split - 1);
          const std::int64_t sweep = gradient_bytes + sums.region_sweep_peak_bytes[inner];
          const std::int64_t right = block.input_bytes + later[static_cast<std::size_t>(split)];
          const std::int64_t left = needs[inner] + sums.parameter_gradient_bytes(split, last + 1);
          need = std::min(need, std::max({sweep, right, left}));
        }
      }
      needs[sums.index(first, last)] = need;
      later[static_cast<std::size_t>(first)] = need;
    }
  }
  return needs;
}

}  // namespace

std::vector<KeptChoice> kept_choices(const Chain& chain, const ChainSums& sums,
                                     std::int64_t first) {
  const std::int64_t n = block_count(chain);
  const ChainBlock& block = block_at(chain, first);
  std::vector<KeptChoice> choices = {
      {.end = first + 1,
       .held_bytes = block.held_bytes,
       .peak_bytes =
           std::max(block.forward_peak_bytes,
                    block.backward_peak_bytes + sums.parameter_gradient_bytes(first + 1, n))}};
  for (std::size_t i = 0; i < chain.options.size(); ++i) {
    const KeepOption& option = chain.options[i];
    if (option.begin != first) continue;
    choices.push_back({.option = static_cast<std::int64_t>(i),
                       .end = option.end,
                       .held_bytes = option.held_bytes,
                       .peak_bytes = std::max(option.forward_peak_bytes,
                                              option.backward_peak_bytes +
                                                  sums.parameter_gradient_bytes(option.end, n)),
                       .extra_cost = option.extra_cost});
  }
  return choices;
}

ChainSums sum_chain(const Chain& chain) {
  ChainSums sums;
  const std::int64_t n = block_count(chain);
  sums.region_blocks = n - 1;
  sums.index = {.count = n - 1};
  sums.sweep_cost_before.push_back(0);
  sums.once_cost_before.push_back(0);
  sums.parameter_gradient_bytes_before.push_back(0);
  for (const ChainBlock& block : chain.blocks) {
    sums.once_cost_before.push_back(sums.sweep_cost_before.back() + block.last_cost);
    sums.sweep_cost_before.push_back(sums.sweep_cost_before.back() + block.sweep_cost);
    sums.parameter_gradient_bytes_before.push_back(sums.parameter_gradient_bytes_before.back() +
                                                   block.parameter_gradient_bytes);
  }
  add_sweep_peaks(chain, sums);
  return sums;
}

std::int64_t keep_all_bytes(const Chain& chain, const ChainSums& sums) {
  std::int64_t held_bytes = 0;
  std::int64_t peak_bytes = 0;
  for (std::int64_t i = 0; i < block_count(chain); ++i) {
    const KeptChoice kept = kept_choices(chain, sums, i).front();
    peak_bytes = std::max(peak_bytes, held_bytes + kept.peak_bytes);
    held_bytes += kept.held_bytes;
    peak_bytes = std::max(peak_bytes, held_bytes);
  }
  return peak_bytes;
}

std::int64_t least_chain_bytes(const Chain& chain, const ChainSums& sums) {
  const std::int64_t n = block_count(chain);
  const std::vector<std::int64_t> recompute = least_recompute_bytes(chain, sums);
  std::vector<std::int64_t> needs(static_cast<std::size_t>(n + 1), kNever);
  needs.back() = 0;
  for (std::int64_t i = n - 1; i >= 0; --i) {
    std::int64_t& need = needs[static_cast<std::size_t>(i)];
    for (const KeptChoice& kept : kept_choices(chain, sums, i)) {
      need = std::min(need, std::max(kept.peak_bytes,
                                     kept.held_bytes + needs[static_cast<std::size_t>(kept.end)]));
    }
    const std::int64_t input_bytes = block_at(chain, i).input_bytes;
    for (std::int64_t end = i + 1; end < n; ++end) {
      need = std::min(
          need, std::max({sums.sweep_peak_bytes(i, end - 1),
                          recompute[sums.index(i, end - 1)] + sums.parameter_gradient_bytes(end, n),
                          input_bytes + needs[static_cast<std::size_t>(end)]}));
    }
  }
  return chain.base_bytes + needs.front();
}

std::vector<std::int32_t> first_equal_ranges(const Chain& chain, const ChainSums& sums) {
  const std::vector<std::int32_t> kinds = kinds_of(chain);
  const std::int64_t count = sums.region_blocks;
  std::vector<std::int32_t> first_equal(sums.index.size());
  std::size_t repeats = 0;
  // common[i]: how many blocks from i on equal those from `first` on.
  std::vector<std::vector<std::int32_t>> common(
      static_cast<std::size_t>(count + 1),
      std::vector<std::int32_t>(static_cast<std::size_t>(count + 1), 0));
  for (std::int64_t first = count - 1; first >= 0; --first) {
    for (std::int64_t i = first - 1; i >= 0; --i) {
      const auto a = static_cast<std::size_t>(i);
      const auto b = static_cast<std::size_t>(first);
      if (kinds[a] == kinds[b]) common[b][a] = common[b + 1][a + 1] + 1;
    }
  }
  for (std::int64_t first = 0; first < count; ++first) {
    std::int64_t known = 0;
    for (std::int64_t i = 0; i < first; ++i) {
      const std::int64_t length =
          common[static_cast<std::size_t>(first)][static_cast<std::size_t>(i)];
      for (; known < length; ++known) {
        first_equal[sums.index(first, first + known)] = static_cast<std::int32_t>(i);
        ++repeats;
      }
    }
    for (std::int64_t last = first + known; last < count; ++last) {
      first_equal[sums.index(first, last)] = static_cast<std::int32_t>(first);
    }
  }
  if (repeats * 2 < first_equal.size()) return {};
  return first_equal;
}

}  // namespace cairn
