#include "planner/slot_unit.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <numeric>
#include <utility>
#include <vector>

namespace cairn {
namespace {

constexpr std::size_t kCandidateLimit = 256;

// The sizes that are taken off what is available, again and again, and how often each occurs.
std::map<std::int64_t, std::int64_t> stacked_sizes(const Chain& chain) {
  std::map<std::int64_t, std::int64_t> counts;
  for (const ChainBlock& block : chain.blocks) {
    if (block.input_bytes > 0) ++counts[block.input_bytes];
    if (block.inner_held_bytes > 0) ++counts[block.inner_held_bytes];
  }
  return counts;
}

// Units between `least_bytes` and twice as many of which some size is nearly a multiple.
std::vector<std::int64_t> candidate_units(const std::map<std::int64_t, std::int64_t>& sizes,
                                          std::int64_t least_bytes) {
  std::vector<std::int64_t> units = {least_bytes};
  const std::int64_t most_bytes = 2 * least_bytes;
  for (const auto& [size_bytes, count] : sizes) {
    const std::int64_t most_slots = size_bytes / least_bytes;
    for (std::int64_t slots = most_slots; slots > 0 && slots > most_slots - 8; --slots) {
      const std::int64_t unit_bytes = (size_bytes + slots - 1) / slots;
      if (unit_bytes > most_bytes) break;
      units.push_back(unit_bytes);
    }
    if (units.size() > kCandidateLimit) break;
  }
  return units;
}

}  // namespace

std::int64_t common_divisor_bytes(const Chain& chain) {
  std::int64_t divisor = 0;
  for (const ChainBlock& block : chain.blocks) {
    for (const std::int64_t bytes :
         {block.input_bytes, block.sweep_peak_bytes, block.held_bytes, block.forward_peak_bytes,
          block.backward_peak_bytes, block.inner_held_bytes, block.inner_forward_peak_bytes,
          block.inner_backward_peak_bytes, block.last_peak_bytes, block.gradient_bytes,
          block.parameter_gradient_bytes}) {
      divisor = std::gcd(divisor, bytes);
    }
  }
  for (const KeepOption& option : chain.options) {
    for (const std::int64_t bytes :
         {option.held_bytes, option.forward_peak_bytes, option.backward_peak_bytes}) {
      divisor = std::gcd(divisor, bytes);
    }
  }
  return std::max<std::int64_t>(divisor, 1);
}

std::int64_t choose_unit_bytes(const Chain& chain, std::int64_t available_bytes,
                               std::int64_t slot_limit) {
  const std::map<std::int64_t, std::int64_t> sizes = stacked_sizes(chain);
  const std::int64_t least_bytes =
      std::max<std::int64_t>(1, (available_bytes + slot_limit - 1) / slot_limit);
  std::int64_t best_bytes = least_bytes;
  std::int64_t best_loss_bytes = INT64_MAX;
  for (const std::int64_t unit_bytes : candidate_units(sizes, least_bytes)) {
    std::int64_t loss_bytes = 0;
    for (const auto& [size_bytes, count] : sizes) {
      const std::int64_t rest_bytes = size_bytes % unit_bytes;
      if (rest_bytes > 0) loss_bytes += count * (unit_bytes - rest_bytes);
    }
    if (loss_bytes < best_loss_bytes ||
        (loss_bytes == best_loss_bytes && unit_bytes < best_bytes)) {
      best_loss_bytes = loss_bytes;
      best_bytes = unit_bytes;
    }
  }
  return best_bytes;
}

}  // namespace cairn
