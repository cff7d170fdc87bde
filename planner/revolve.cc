#include <algorithm>

#include "planner/planner.h"

namespace cairn {
namespace {

using Steps = std::vector<std::pair<std::int32_t, std::int32_t>>;

// More plans than this are thinned out: then each number of snapshots is at least this part above
// the last.
constexpr std::size_t kMostPlans = 100;
constexpr std::size_t kThinning = 16;

// Regions are nested as deep as steps are repeated. So deep a plan file can be read again.
constexpr std::int64_t kMostRepeats = 30;

// More steps than any graph has.
constexpr std::int64_t kEndless = std::int64_t{1} << 31;

// C(snapshots + repeats, snapshots): as many steps can be reversed with so many snapshots, the
// first of them of the input, when no step runs more than `repeats` times before its own reversal.
std::int64_t most_steps(std::int64_t snapshots, std::int64_t repeats) {
  const std::int64_t total = snapshots + repeats;
  std::int64_t steps = 1;
  for (std::int64_t i = 1; i <= std::min(snapshots, repeats); ++i) {
    steps = steps * (total - i + 1) / i;
    if (steps >= kEndless) return kEndless;
  }
  return steps;
}

// The least number of repeats that is enough; kMostRepeats + 1 when that is too many.
std::int64_t least_repeats(std::int64_t steps, std::int64_t snapshots) {
  std::int64_t repeats = 0;
  while (repeats <= kMostRepeats && most_steps(snapshots, repeats) < steps) ++repeats;
  return repeats;
}

// How far the next snapshot is from the first: the steps before it are reversed with one repeat
// less, those behind it with one snapshot less (Griewank & Walther 2000). Of several such numbers
// the largest.
std::int64_t steps_to_snapshot(std::int64_t steps, std::int64_t snapshots) {
  const std::int64_t repeats = least_repeats(steps, snapshots);
  return std::min(most_steps(snapshots, repeats - 1),
                  steps - most_steps(snapshots - 1, repeats - 1));
}

// The regions of a frame that holds steps [begin, end) of at least one. What lies before a snapshot
// is a region, and the frame's last step is in no region.
//
//   s0 s1 s2 | s3 s4 | s5      snapshots before s0, s3 and s5: regions (s0 s1 s2)(s3 s4)
std::vector<Region> frame_regions(const Steps& steps, std::size_t begin, std::size_t end,
                                  std::int64_t snapshots) {
  std::vector<Region> regions;
  for (; end - begin > 1; --snapshots) {
    const auto count = static_cast<std::int64_t>(end - begin);
    const std::size_t next = begin + static_cast<std::size_t>(steps_to_snapshot(count, snapshots));
    regions.push_back({.begin = steps[begin].first,
                       .end = steps[next - 1].second,
                       .inner = frame_regions(steps, begin, next, snapshots)});
    begin = next;
  }
  return regions;
}

// The layers with a Backward, and what has one behind the last of them.
Steps steps_of(const Graph& graph) {
  Steps steps = layers_with_backward(graph);
  const auto last = std::find_if(graph.ops.rbegin(), graph.ops.rend(),
                                 [](const Op& op) { return op.has_backward; });
  const auto end = static_cast<std::int32_t>(graph.ops.rend() - last);
  if (!steps.empty() && steps.back().second < end) steps.emplace_back(steps.back().second, end);
  return steps;
}

// For how many snapshots there is a plan: from the fewest that repeat no step too often to one for
// each step but the last, which needs none.
std::vector<std::int64_t> snapshot_counts(std::size_t step_count, bool is_thinned) {
  std::vector<std::int64_t> counts;
  for (std::size_t count = 1; count < step_count;) {
    const auto snapshots = static_cast<std::int64_t>(count);
    if (least_repeats(static_cast<std::int64_t>(step_count), snapshots) <= kMostRepeats) {
      counts.push_back(snapshots);
    }
    count += is_thinned ? std::max<std::size_t>(1, count / kThinning) : 1;
  }
  return counts;
}

}  // namespace

std::vector<Plan> revolve_plans(const Graph& graph, Extent extent) {
  const Steps steps = steps_of(graph);
  std::vector<Plan> plans;
  const auto add_plan = [&](std::vector<Region> regions) {
    plans.push_back(keep_all_plan(graph));
    plans.back().algorithm = strategy_name({.algorithm = Algorithm::kRevolve});
    plans.back().extent = extent;
    plans.back().regions = std::move(regions);
  };
  for (const std::int64_t snapshots : snapshot_counts(steps.size(), steps.size() > kMostPlans)) {
    add_plan(frame_regions(steps, 0, steps.size(), snapshots));
  }
  add_plan({});
  return plans;
}

}  // namespace cairn
