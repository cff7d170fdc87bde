#include "planner/root_hull.h"

#include <algorithm>
#include <cstddef>
#include <unordered_map>
#include <utility>
#include <vector>

namespace cairn {
namespace {

__extension__ using Wide = __int128;

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

// The cost on the line between two points, rounded down.
std::int64_t cost_between(const ChainPoint& left, const ChainPoint& right, std::int64_t bytes) {
  if (bytes == left.need_bytes) return left.extra_cost;
  const Wide fall = Wide{left.extra_cost - right.extra_cost} * (bytes - left.need_bytes);
  const std::int64_t width = right.need_bytes - left.need_bytes;
  if (fall <= INT64_MAX - width) {  // nearly always, and several times faster
    return left.extra_cost - (static_cast<std::int64_t>(fall) + width - 1) / width;
  }
  return left.extra_cost - static_cast<std::int64_t>((fall + width - 1) / width);
}

bool is_above_line(const ChainPoint& left, const ChainPoint& middle, const ChainPoint& right) {
  return Wide{middle.extra_cost - left.extra_cost} * (right.need_bytes - left.need_bytes) >=
         Wide{right.extra_cost - left.extra_cost} * (middle.need_bytes - left.need_bytes);
}

// Appends a point that needs as much as the last or more.
void append_to_hull(ChainPoints& hull, const ChainPoint& point) {
  if (!hull.empty() && point.extra_cost >= hull.back().extra_cost) return;
  if (!hull.empty() && point.need_bytes == hull.back().need_bytes) hull.pop_back();
  while (hull.size() >= 2 && is_above_line(hull[hull.size() - 2], hull.back(), point)) {
    hull.pop_back();
  }
  hull.push_back(point);
}

// The hull of both; `other` is any points by rising need.
ChainPoints merge_hulls(const ChainPoints& hull, const ChainPoints& other) {
  ChainPoints merged;
  merged.reserve(hull.size() + other.size());
  std::size_t i = 0;
  std::size_t j = 0;
  while (i < hull.size() || j < other.size()) {
    const bool takes_first =
        j == other.size() || (i < hull.size() && hull[i].need_bytes <= other[j].need_bytes);
    append_to_hull(merged, takes_first ? hull[i++] : other[j++]);
  }
  return merged;
}

ChainPoints hull_of_row(const CostRow& row, const SlotUnit& unit) {
  ChainPoints hull;
  for (std::int64_t slots = row.low; slots <= row.high; ++slots) {
    append_to_hull(hull,
                   {.need_bytes = unit.bytes_of(slots), .extra_cost = row.costs[slots - row.low]});
  }
  return hull;
}

// Walks along a hull, moved up by some bytes.
struct HullWalk {
  const ChainPoints& hull;
  std::int64_t shift_bytes = 0;
  std::size_t next = 0;  // the first corner behind

  std::int64_t next_bytes() const {
    return next < hull.size() ? hull[next].need_bytes + shift_bytes : INT64_MAX;
  }
  // Not below the first corner, and never back.
  std::int64_t cost(std::int64_t bytes) {
    while (next_bytes() <= bytes) ++next;
    const ChainPoint& left = hull[next - 1];
    if (next == hull.size()) return left.extra_cost;
    return cost_between(left, hull[next], bytes - shift_bytes);
  }
};

class HullRoot {
 public:
  HullRoot(const Chain& chain, const ChainSums& sums, const NestedTable& table)
      : chain_(chain), sums_(sums), table_(table), hulls_(chain.blocks.size() + 1) {
    hulls_.back() = {{.need_bytes = 0, .extra_cost = 0}};
    for (std::int64_t first = block_count() - 1; first >= 0; --first) solve(first);
  }

  const ChainPoints& hull() const { return hulls_.front(); }

 private:
  std::int64_t block_count() const { return static_cast<std::int64_t>(chain_.blocks.size()); }

  void solve(std::int64_t first) {
    ChainPoints& hull = hulls_[at(first)];
    for (const KeptChoice& kept : kept_choices(chain_, sums_, first)) {
      add_kept(kept);
      hull = merge_hulls(hull, points_);
    }
    for (std::int64_t end = first + 1; end < block_count(); ++end) {
      // Longer regions cost more, and less than what everything can be had for is not below it.
      if (!hull.empty() && is_above(hull, first, end)) continue;
      add_region(first, end);
      if (is_any_below(hull)) hull = merge_hulls(hull, points_);
    }
  }

  // Whether the region's recompute once costs more than anything does from its least need on.
  bool is_above(const ChainPoints& hull, std::int64_t first, std::int64_t end) const {
    const CostRow& row = table_.row(first, end - 1);
    if (row.is_empty() || hulls_[at(end)].empty()) return true;
    const std::int64_t least_bytes = std::max(
        {sums_.sweep_peak_bytes(first, end - 1),
         hulls_[at(end)].front().need_bytes + chain_.blocks[at(first)].input_bytes,
         table_.unit().bytes_of(row.low) + sums_.parameter_gradient_bytes(end, block_count())});
    return hull_cost_within(hull, least_bytes) <=
           sums_.once_cost(first, end - 1) + hulls_[at(end)].back().extra_cost;
  }

  // Of points_.
  bool is_any_below(const ChainPoints& hull) const {
    if (points_.empty()) return false;
    if (hull.empty() || points_.front().need_bytes < hull.front().need_bytes) return true;
    HullWalk walk = {.hull = hull};
    return std::any_of(points_.begin(), points_.end(), [&](const ChainPoint& point) {
      return point.extra_cost < walk.cost(point.need_bytes);
    });
  }

  void add_kept(const KeptChoice& kept) {
    points_.clear();
    const ChainPoints& behind = hulls_[at(kept.end)];
    if (behind.empty()) return;
    HullWalk walk = {.hull = behind, .shift_bytes = kept.held_bytes};
    std::int64_t bytes = std::max(kept.peak_bytes, walk.next_bytes());
    for (; bytes != INT64_MAX; bytes = walk.next_bytes()) {
      points_.push_back({.need_bytes = bytes, .extra_cost = walk.cost(bytes) + kept.extra_cost});
    }
  }

  void add_region(std::int64_t first, std::int64_t end) {
    points_.clear();
    const CostRow& row = table_.row(first, end - 1);
    const ChainPoints& recompute = row_hull(row);
    const std::int64_t once_cost = sums_.once_cost(first, end - 1);
    HullWalk inside = {.hull = recompute,
                       .shift_bytes = sums_.parameter_gradient_bytes(end, block_count())};
    HullWalk behind = {.hull = hulls_[at(end)],
                       .shift_bytes = chain_.blocks[at(first)].input_bytes};
    std::int64_t bytes = std::max(
        {sums_.sweep_peak_bytes(first, end - 1), inside.next_bytes(), behind.next_bytes()});
    while (bytes != INT64_MAX) {
      const std::int64_t cost = inside.cost(bytes) + behind.cost(bytes) + once_cost;
      points_.push_back({.need_bytes = bytes, .extra_cost = cost});
      bytes = std::min(inside.next_bytes(), behind.next_bytes());
    }
  }

  const ChainPoints& row_hull(const CostRow& row) {
    const auto [known, is_new] = row_hulls_.try_emplace(row.costs);
    if (is_new) known->second = hull_of_row(row, table_.unit());
    return known->second;
  }

  const Chain& chain_;
  const ChainSums& sums_;
  const NestedTable& table_;
  std::vector<ChainPoints> hulls_ = {};
  ChainPoints points_ = {};                                              // of the choice at hand
  std::unordered_map<const std::int64_t*, ChainPoints> row_hulls_ = {};  // rows may be shared
};

}  // namespace

ChainPoints root_hull(const Chain& chain, const ChainSums& sums, const NestedTable& table) {
  return HullRoot(chain, sums, table).hull();
}

std::int64_t hull_cost_within(const ChainPoints& hull, std::int64_t bytes) {
  const std::int64_t i = last_within(hull, bytes);
  if (i < 0) return kInfiniteCost;
  if (i + 1 == static_cast<std::int64_t>(hull.size())) return hull.back().extra_cost;
  return cost_between(hull[at(i)], hull[at(i + 1)], bytes);
}

}  // namespace cairn
