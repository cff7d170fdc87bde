#pragma once

#include "graph/graph.h"

namespace cairn {

// The forward pass of an evaluation: model.eval() and torch.no_grad(). Nothing has a gradient, so
// nothing is saved, and dropout hands its input on.
Graph evaluation_graph(const Graph& graph);

}  // namespace cairn
