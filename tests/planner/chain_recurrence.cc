#include "tests/planner/chain_recurrence.h"

#include <algorithm>

namespace cairn::test {
namespace {

using Cost = std::optional<std::int64_t>;

void take_least(Cost& least, const Cost& cost) {
  if (cost && (!least || *cost < *least)) least = cost;
}

Cost sum(const Cost& a, const Cost& b, std::int64_t c) {
  return a && b ? Cost(*a + *b + c) : std::nullopt;
}

}  // namespace

std::optional<std::int64_t> ChainRecurrence::least_extra_cost(std::int64_t budget_bytes) {
  return root(0, budget_bytes - chain_.base_bytes);
}

// Blocks from `first` on, in forward: kept whole, or in a region up to some block.
Cost ChainRecurrence::root(std::size_t first, std::int64_t bytes) {
  const std::size_t count = chain_.blocks.size();
  if (bytes < 0) return std::nullopt;  // what is held is more than there is
  if (first == count) return 0;
  const auto known = root_known_.find({first, bytes});
  if (known != root_known_.end()) return known->second;
  Cost least;
  const ChainBlock& block = chain_.blocks[first];
  if (bytes >= block.forward_peak_bytes &&
      bytes >= block.backward_peak_bytes + parameter_gradient_bytes(first + 1, count)) {
    take_least(least, root(first + 1, bytes - block.held_bytes));
  }
  for (std::size_t end = first + 1; end < count; ++end) {
    if (bytes < sweep_peak_bytes(first, end)) continue;
    take_least(least,
               sum(root(end, bytes - block.input_bytes),
                   recompute(first, end - 1, bytes - parameter_gradient_bytes(end, count)), 0));
  }
  for (const KeepOption& option : chain_.options) {
    if (static_cast<std::size_t>(option.begin) != first) continue;
    const auto end = static_cast<std::size_t>(option.end);
    if (bytes < option.forward_peak_bytes ||
        bytes < option.backward_peak_bytes + parameter_gradient_bytes(end, count)) {
      continue;
    }
    take_least(least, sum(root(end, bytes - option.held_bytes), 0, option.extra_cost));
  }
  root_known_[{first, bytes}] = least;
  return least;
}

// Blocks first to last, the last included, in the recompute of a region that ends with them. The
// gradient of what it makes is live.
Cost ChainRecurrence::recompute(std::size_t first, std::size_t last, std::int64_t bytes) {
  const ChainBlock& block = chain_.blocks[first];
  if (bytes < 0) return std::nullopt;
  if (first == last) return bytes >= block.last_peak_bytes ? Cost(block.last_cost) : std::nullopt;
  const auto known = recompute_known_.find({first, last, bytes});
  if (known != recompute_known_.end()) return known->second;
  Cost least;
  const std::int64_t gradient_bytes = chain_.blocks[last].gradient_bytes;
  if (bytes >= gradient_bytes + block.inner_forward_peak_bytes &&
      bytes >= block.inner_backward_peak_bytes + parameter_gradient_bytes(first + 1, last + 1)) {
    take_least(least, sum(recompute(first + 1, last, bytes - block.inner_held_bytes),
                          block.sweep_cost, 0));
  }
  for (std::size_t split = first + 1; split <= last; ++split) {
    if (bytes < gradient_bytes + sweep_peak_bytes(first, split)) continue;
    const std::int64_t left_bytes = bytes - parameter_gradient_bytes(split, last + 1);
    take_least(least, sum(recompute(split, last, bytes - block.input_bytes),
                          recompute(first, split - 1, left_bytes), sweep_cost(first, split)));
  }
  recompute_known_[{first, last, bytes}] = least;
  return least;
}

std::int64_t ChainRecurrence::sweep_peak_bytes(std::size_t first, std::size_t end) const {
  std::int64_t peak_bytes = chain_.blocks[first].sweep_peak_bytes;
  for (std::size_t i = first + 1; i < end; ++i) {
    peak_bytes =
        std::max(peak_bytes, chain_.blocks[first].input_bytes + chain_.blocks[i].sweep_peak_bytes);
  }
  return peak_bytes;
}

std::int64_t ChainRecurrence::sweep_cost(std::size_t first, std::size_t end) const {
  std::int64_t cost = 0;
  for (std::size_t i = first; i < end; ++i) cost += chain_.blocks[i].sweep_cost;
  return cost;
}

std::int64_t ChainRecurrence::parameter_gradient_bytes(std::size_t first, std::size_t end) const {
  std::int64_t bytes = 0;
  for (std::size_t i = first; i < end; ++i) bytes += chain_.blocks[i].parameter_gradient_bytes;
  return bytes;
}

}  // namespace cairn::test
