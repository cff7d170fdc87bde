#include "planner/thin_options.h"

#include <algorithm>
#include <optional>
#include <tuple>

namespace cairn {
namespace {

// By held bytes, or by peak: in each of `bucket_count` ranges the cheapest.
template <typename BytesOf>
void mark_cheapest(const std::vector<KeepSet>& sets, std::size_t bucket_count,
                   const BytesOf& bytes_of, std::vector<bool>& is_taken) {
  const auto [least, most] = std::minmax_element(
      sets.begin(), sets.end(),
      [&](const KeepSet& a, const KeepSet& b) { return bytes_of(a) < bytes_of(b); });
  const std::int64_t first_bytes = bytes_of(*least);
  const auto count = static_cast<std::int64_t>(bucket_count);
  const std::int64_t width_bytes = (bytes_of(*most) - first_bytes) / count + 1;
  std::vector<std::optional<std::size_t>> cheapest(bucket_count);
  const auto rank = [&](std::size_t i) {
    return std::tuple(sets[i].recompute_cost, bytes_of(sets[i]), sets[i].held_bytes,
                      sets[i].backward_peak_bytes);
  };
  for (std::size_t i = 0; i < sets.size(); ++i) {
    const std::int64_t bucket = (bytes_of(sets[i]) - first_bytes) / width_bytes;
    std::optional<std::size_t>& best = cheapest[static_cast<std::size_t>(bucket)];
    if (!best || rank(i) < rank(*best)) best = i;
  }
  for (const std::optional<std::size_t>& best : cheapest) {
    if (best) is_taken[*best] = true;
  }
}

// Whether b lies on or above the line from a to c.
bool is_above(const KeepSet& a, const KeepSet& b, const KeepSet& c) {
  const auto rise = [](const KeepSet& from, const KeepSet& to) {
    return static_cast<double>(to.recompute_cost - from.recompute_cost);
  };
  const auto run = [](const KeepSet& from, const KeepSet& to) {
    return static_cast<double>(to.held_bytes - from.held_bytes);
  };
  return rise(a, b) * run(a, c) >= rise(a, c) * run(a, b);
}

void mark_hull(const std::vector<KeepSet>& sets, std::vector<bool>& is_taken) {
  std::vector<std::size_t> order(sets.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return std::tuple(sets[a].held_bytes, sets[a].recompute_cost, sets[a].backward_peak_bytes, a) <
           std::tuple(sets[b].held_bytes, sets[b].recompute_cost, sets[b].backward_peak_bytes, b);
  });
  std::vector<std::size_t> hull;
  for (const std::size_t next : order) {
    if (!hull.empty() && sets[next].recompute_cost >= sets[hull.back()].recompute_cost) continue;
    while (hull.size() >= 2 &&
           is_above(sets[hull[hull.size() - 2]], sets[hull.back()], sets[next])) {
      hull.pop_back();
    }
    hull.push_back(next);
  }
  for (const std::size_t on_hull : hull) is_taken[on_hull] = true;
}

}  // namespace

std::vector<KeepSet> thinned(const std::vector<KeepSet>& sets, std::size_t bucket_count) {
  if (sets.size() <= bucket_count) return sets;
  std::vector<bool> is_taken(sets.size(), false);
  mark_hull(sets, is_taken);
  const auto held = [](const KeepSet& set) { return set.held_bytes; };
  const auto peak = [](const KeepSet& set) { return set.backward_peak_bytes; };
  mark_cheapest(sets, bucket_count, held, is_taken);
  mark_cheapest(sets, std::max<std::size_t>(bucket_count / 4, 1), peak, is_taken);
  std::vector<KeepSet> taken;
  for (std::size_t i = 0; i < sets.size(); ++i) {
    if (is_taken[i]) taken.push_back(sets[i]);
  }
  return taken;
}

}  // namespace cairn
