#include "tests/planner/solver_chains.h"

#include <algorithm>
#include <cstddef>

namespace cairn {
namespace {

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

// Of the parameters of blocks [begin, end).
std::int64_t gradients(const Chain& chain, std::int64_t begin, std::int64_t end) {
  std::int64_t bytes = 0;
  for (std::int64_t i = begin; i < end; ++i) {
    bytes += chain.blocks[at(i)].parameter_gradient_bytes;
  }
  return bytes;
}

std::int64_t sweep_peak(const Chain& chain, std::int64_t begin, std::int64_t end) {
  std::int64_t peak = chain.blocks[at(begin)].sweep_peak_bytes;
  for (std::int64_t i = begin + 1; i < end; ++i) {
    peak =
        std::max(peak, chain.blocks[at(begin)].input_bytes + chain.blocks[at(i)].sweep_peak_bytes);
  }
  return peak;
}

std::int64_t block_count(const Chain& chain) {
  return static_cast<std::int64_t>(chain.blocks.size());
}

// Of blocks [first, last], from item `next` on, in a region's recompute.
std::int64_t nested_need(const Chain& chain, const std::vector<ChainItem>& items, std::size_t next,
                         std::int64_t last) {
  const ChainItem& item = items[next];
  const ChainBlock& block = chain.blocks[at(item.begin)];
  if (item.begin == last) return block.last_peak_bytes;
  const std::int64_t rest = nested_need(chain, items, next + 1, last);
  const std::int64_t gradient = chain.blocks[at(last)].gradient_bytes;
  if (item.kind == ChainItem::Kind::kKept) {
    return std::max({gradient + block.inner_forward_peak_bytes,
                     block.inner_backward_peak_bytes + gradients(chain, item.begin + 1, last + 1),
                     block.inner_held_bytes + rest});
  }
  return std::max(
      {gradient + sweep_peak(chain, item.begin, item.end), block.input_bytes + rest,
       gradients(chain, item.end, last + 1) + nested_need(chain, item.inner, 0, item.end - 1)});
}

std::int64_t root_need(const Chain& chain, const std::vector<ChainItem>& items, std::size_t next) {
  if (next == items.size()) return 0;
  const ChainItem& item = items[next];
  const ChainBlock& block = chain.blocks[at(item.begin)];
  const std::int64_t rest = root_need(chain, items, next + 1);
  const std::int64_t later = gradients(chain, item.end, block_count(chain));
  if (item.kind == ChainItem::Kind::kKept) {
    return std::max(
        {block.forward_peak_bytes, block.backward_peak_bytes + later, block.held_bytes + rest});
  }
  if (item.kind == ChainItem::Kind::kOption) {
    const KeepOption& option = chain.options[at(item.option)];
    return std::max(
        {option.forward_peak_bytes, option.backward_peak_bytes + later, option.held_bytes + rest});
  }
  return std::max({sweep_peak(chain, item.begin, item.end), block.input_bytes + rest,
                   later + nested_need(chain, item.inner, 0, item.end - 1)});
}

}  // namespace

std::int64_t need_of(const Chain& chain, const std::vector<ChainItem>& items) {
  return chain.base_bytes + root_need(chain, items, 0);
}

Chain saved_chain(const std::vector<std::int64_t>& inputs, const std::vector<std::int64_t>& saved,
                  const std::vector<std::int64_t>& workspaces,
                  const std::vector<std::int64_t>& costs,
                  const std::vector<std::int64_t>& other_workspaces) {
  Chain chain;
  for (std::size_t i = 0; i < costs.size(); ++i) {
    const std::int64_t x = inputs[i];
    const std::int64_t y = inputs[i + 1];
    const std::int64_t other = other_workspaces.empty() ? workspaces[i] : other_workspaces[i];
    ChainBlock block;
    block.input_bytes = x;
    block.held_bytes = x + saved[i] - y;
    block.forward_peak_bytes = x + saved[i] + workspaces[i];
    block.backward_peak_bytes = x + x + y + saved[i] + other;
    block.sweep_peak_bytes = x + y + other;
    block.inner_held_bytes = block.held_bytes;
    block.inner_forward_peak_bytes = block.forward_peak_bytes;
    block.inner_backward_peak_bytes = block.backward_peak_bytes;
    block.last_peak_bytes = std::max(y + block.forward_peak_bytes, block.backward_peak_bytes);
    block.gradient_bytes = y;
    block.sweep_cost = costs[i];
    block.last_cost = costs[i];
    chain.blocks.push_back(block);
  }
  return chain;
}

void make_first_input_resident(Chain& chain) {
  ChainBlock& block = chain.blocks.front();
  const std::int64_t x = block.input_bytes;
  for (std::int64_t* const bytes :
       {&block.input_bytes, &block.held_bytes, &block.forward_peak_bytes,
        &block.backward_peak_bytes, &block.sweep_peak_bytes, &block.inner_held_bytes,
        &block.inner_forward_peak_bytes, &block.inner_backward_peak_bytes,
        &block.last_peak_bytes}) {
    *bytes -= x;
  }
}

Chain random_chain(std::mt19937_64& random, const RandomChain& options) {
  const auto number = [&](std::int64_t least, std::int64_t most) {
    return std::uniform_int_distribution<std::int64_t>(least, most)(random);
  };
  const auto bytes = [&](std::int64_t least, std::int64_t most) {
    const std::int64_t unit = options.bytes_per_unit;
    return number(least, most) * unit + (unit > 1 ? number(0, unit - 1) : 0);
  };
  Chain chain;
  chain.base_bytes = bytes(0, 5);
  const std::int64_t n = number(options.least_blocks, options.most_blocks);
  for (std::int64_t i = 0; i < n; ++i) {
    ChainBlock block;
    block.input_bytes = bytes(0, 4);
    block.held_bytes = bytes(0, 12);
    block.inner_held_bytes = number(0, 1) == 0 ? block.held_bytes : bytes(0, 12);
    for (std::int64_t* const peak : {&block.sweep_peak_bytes, &block.forward_peak_bytes,
                                     &block.backward_peak_bytes, &block.inner_forward_peak_bytes,
                                     &block.inner_backward_peak_bytes, &block.last_peak_bytes}) {
      *peak = bytes(0, 16);
    }
    block.gradient_bytes = bytes(0, 4);
    block.parameter_gradient_bytes = number(0, 2) == 0 ? bytes(0, 3) : 0;
    block.sweep_cost = number(0, 9);
    block.last_cost = number(0, 1) == 0 ? block.sweep_cost : number(0, block.sweep_cost);
    chain.blocks.push_back(block);
  }
  for (std::int64_t i = 0; options.has_options && n > 1 && i < n; ++i) {
    KeepOption option;
    const std::int64_t begin = number(0, n - 2);
    option.begin = static_cast<std::int32_t>(begin);
    option.end = static_cast<std::int32_t>(number(begin + 1, std::min(begin + 2, n - 1)));
    option.held_bytes = bytes(0, 10);
    option.forward_peak_bytes = bytes(0, 16);
    option.backward_peak_bytes = bytes(0, 16);
    option.extra_cost = number(0, 9);
    chain.options.push_back(option);
  }
  return chain;
}

}  // namespace cairn
