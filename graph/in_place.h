#pragma once

#include <vector>

#include "graph/graph.h"
#include "graph/ids.h"
#include "graph/region_tree.h"

// In-place ops reuse their input's storage: the old value is gone. These refuse what would still
// need it.
//
//   C f    a |##|        w overwrites a with b: nothing may read a, or another tensor that was
//   C w    b |##|        made on its storage before w, once w has run

namespace cairn {

// Throws InputError when an op, run in this order, reads a tensor that an earlier op overwrote,
// when a Backward would, or when an input or parameter of the graph is overwritten.
void check_in_place(const Graph& graph, const std::vector<OpId>& order);

// Throws InputError when a region's recompute would read from outside it what was overwritten.
void check_in_place_regions(const Graph& graph, const std::vector<OpId>& order,
                            const RegionTree& tree);

// Throws InputError when a Backward would write a gradient over a tensor that is not saved, that is
// not as large, or that another op reads too.
void check_gradient_places(const Graph& graph);

}  // namespace cairn
