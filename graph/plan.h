#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.h"
#include "graph/ids.h"

// The one representation of a plan: an execution order and a tree of regions over it.
//
//   order    embed  | l0 l1 | l2 l3 | norm loss        positions in `order`, [begin, end)
//   regions         [  A   ) [  B   )                   the rest is the root frame
//
// A region is what one checkpoint call wraps: its ops' saved tensors are dropped after forward and
// recomputed, once, before the backward pass needs them. Which ops that recompute runs is its
// extent (docs/accounting.md, sections 3 to 5).

namespace cairn {

enum class Extent {
  kNeeded,  // exactly the ops something still needed comes from (Cairn's executor, JAX)
  kPrefix,  // every op up to the last save event (torch non-reentrant with early stop)
  kWhole,   // every op, at the region's last Backward (torch reentrant)
};

struct Region {
  std::int32_t begin = 0;  // positions in Plan::order, half-open
  std::int32_t end = 0;
  std::vector<TensorId> keep = {};  // made in the region, held from forward; outermost only
  std::vector<Region> inner = {};   // disjoint, in order
};

struct Plan {
  std::string algorithm = {};        // "none", "every-layer", ...
  std::vector<OpId> order = {};      // a permutation of the graph's ops
  std::vector<Region> regions = {};  // outermost regions, disjoint, in order
  Extent extent = Extent::kNeeded;
};

// The graph's own order and no region: keep everything.
Plan keep_all_plan(const Graph& graph);

// Throws InputError when the order is not a topological order of all ops, when regions are empty,
// overlap or leave their parent, when a keep list names what the region does not make or an op
// overwrites, or when an in-place op overwrites what is read later in this order, or by a region's
// recompute.
void check_plan(const Graph& graph, const Plan& plan);

std::string_view extent_name(Extent extent);
std::optional<Extent> find_extent(std::string_view name);
std::vector<std::string> extent_names();

}  // namespace cairn
