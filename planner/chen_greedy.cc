#include <algorithm>

#include "graph/checked.h"
#include "graph/dag.h"
#include "planner/planner.h"

namespace cairn {
namespace {

// More plans than this are thinned out: then each `b` is at least this part above the last.
constexpr std::size_t kMostPlans = 100;
constexpr std::int64_t kThinning = 16;

// What lies between two places where a region may end.
struct Piece {
  std::int32_t begin = 0;  // positions in the order, half-open
  std::int32_t end = 0;
  std::int64_t made_bytes = 0;
};

// Whether a region may begin or end before a position: not between an op that works in place and
// the one that made what it overwrites.
std::vector<bool> open_positions(const Graph& graph) {
  std::vector<bool> is_open(graph.ops.size() + 1, true);
  for (std::size_t i = 0; i < graph.ops.size(); ++i) {
    if (!graph.ops[i].in_place) continue;
    const StorageId overwritten = graph.tensor(graph.ops[i].inputs[0]).storage;
    const OpId maker = graph.tensor(graph.storage(overwritten).owner).producer;
    const std::size_t first = maker == kNoOp ? 0 : index(maker) + 1;
    std::fill(is_open.begin() + static_cast<std::ptrdiff_t>(first),
              is_open.begin() + static_cast<std::ptrdiff_t>(i) + 1, false);
  }
  return is_open;
}

// Where regions may end, in order: behind layers and articulation ops that have a Backward behind
// them.
std::vector<std::int32_t> cut_positions(const Graph& graph, std::int32_t begin) {
  std::vector<std::int32_t> cuts;
  for (const auto& [layer_begin, layer_end] : layer_ranges(graph)) {
    cuts.push_back(layer_begin);
    cuts.push_back(layer_end);
  }
  for (const OpId op : articulation_ops(graph)) {
    cuts.push_back(static_cast<std::int32_t>(op) + 1);
  }
  std::sort(cuts.begin(), cuts.end());
  cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
  const std::vector<bool> is_open = open_positions(graph);
  const auto last = std::find_if(graph.ops.rbegin(), graph.ops.rend(),
                                 [](const Op& op) { return op.has_backward; });
  const auto end = static_cast<std::int32_t>(graph.ops.rend() - last);
  std::erase_if(cuts, [&](std::int32_t cut) {
    return cut <= begin || cut >= end || !is_open[static_cast<std::size_t>(cut)];
  });
  return cuts;
}

std::int64_t made_bytes(const Graph& graph, const Op& op) {
  std::int64_t bytes = 0;
  for (const std::vector<TensorId>& made : {op.outputs, op.auxiliaries}) {
    for (const TensorId tensor : made) {
      if (is_view(graph, tensor)) continue;
      bytes = checked_add(bytes, graph.storage(graph.tensor(tensor).storage).bytes, "bytes made");
    }
  }
  return bytes;
}

// From the first op with a Backward to the last place where a region may end.
std::vector<Piece> pieces_of(const Graph& graph) {
  const auto first = std::find_if(graph.ops.begin(), graph.ops.end(),
                                  [](const Op& op) { return op.has_backward; });
  auto begin = static_cast<std::int32_t>(first - graph.ops.begin());
  std::vector<Piece> pieces;
  for (const std::int32_t cut : cut_positions(graph, begin)) {
    Piece piece{.begin = begin, .end = cut};
    for (std::int32_t i = begin; i < cut; ++i) {
      piece.made_bytes =
          checked_add(piece.made_bytes, made_bytes(graph, graph.ops[static_cast<std::size_t>(i)]),
                      "bytes made");
    }
    pieces.push_back(piece);
    begin = cut;
  }
  return pieces;
}

struct Cutting {
  std::vector<Region> regions = {};
  std::int64_t least_bytes = 0;  // made by one of them; greater than b
};

// A region ends as soon as it has made more than b bytes. What is left behind the last is kept.
Cutting cut_at(const std::vector<Piece>& pieces, std::int64_t b) {
  Cutting cutting;
  std::int64_t bytes = 0;
  std::size_t first = 0;
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    bytes = checked_add(bytes, pieces[i].made_bytes, "bytes made");
    if (bytes <= b) continue;
    cutting.least_bytes = cutting.regions.empty() ? bytes : std::min(cutting.least_bytes, bytes);
    cutting.regions.push_back({.begin = pieces[first].begin, .end = pieces[i].end});
    bytes = 0;
    first = i + 1;
  }
  return cutting;
}

// One cutting for each b that gives another, the last without a region. All cuts of one b stand
// until b reaches the bytes of its least region: that is the next b that cuts otherwise.
std::vector<Cutting> all_cuttings(const std::vector<Piece>& pieces, bool is_thinned) {
  std::vector<Cutting> cuttings;
  std::int64_t b = 0;
  while (true) {
    cuttings.push_back(cut_at(pieces, b));
    const Cutting& cutting = cuttings.back();
    if (cutting.regions.empty() || (!is_thinned && cuttings.size() > kMostPlans)) return cuttings;
    b = is_thinned ? std::max(cutting.least_bytes, b + b / kThinning) : cutting.least_bytes;
  }
}

}  // namespace

std::vector<Plan> chen_greedy_plans(const Graph& graph, Extent extent) {
  const std::vector<Piece> pieces = pieces_of(graph);
  std::vector<Cutting> cuttings = all_cuttings(pieces, false);
  if (cuttings.size() > kMostPlans) cuttings = all_cuttings(pieces, true);
  std::vector<Plan> plans;
  for (Cutting& cutting : cuttings) {
    plans.push_back(keep_all_plan(graph));
    plans.back().algorithm = strategy_name({.algorithm = Algorithm::kChenGreedy});
    plans.back().extent = extent;
    plans.back().regions = std::move(cutting.regions);
  }
  return plans;
}

}  // namespace cairn
