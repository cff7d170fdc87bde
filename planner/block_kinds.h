#pragma once

#include <vector>

#include "graph/graph.h"
#include "planner/blocks.h"

// Which blocks of a chain are equal in all that a plan's memory and cost depend on.
//
// Compared are, op by op, kinds, costs, workspaces, policies, what is read, made, saved and held
// by names, gradients, storages, bytes, and where the block begins and ends in its layer. Not
// compared are names, and the ops' attributes: what matters of them is in bytes and costs. Equal
// are tensors of the block at the same place in it, its inputs, parameters in the order of their
// first use, and any other tensor only with itself. A block that shares a parameter's gradient
// with another block equals no block.

namespace cairn {

// Sets the kind of each; `blocks` are all blocks of the graph, in order.
void number_kinds(const Graph& graph, std::vector<Block>& blocks);

}  // namespace cairn
