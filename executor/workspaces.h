#pragma once

#include "graph/graph.h"

// What the executor's own kernels need beside their tensors. The graph's numbers are those of the
// kernels that a trainer runs on a GPU.

namespace cairn {

// The graph with the workspaces that the executor's kernels ask for, by running them on a device
// that computes nothing. Those of custom ops stay. Throws InputError as check_executable.
Graph with_executor_workspaces(Graph graph);

}  // namespace cairn
