#pragma once

#include <cstdint>
#include <vector>

#include "graph/graph.h"
#include "planner/blocks.h"

// The same graph with its repeats shortened, for simulations that ask what a block does.
//
//   whole      E (a b)(a b)(a b)(a b)(a b)(a b) c L
//   reduced    E (a b)(a b)            (a b) c L
//
// Where a sequence of kinds repeats, its first two periods and its last one stay (more where names
// hold a tensor for longer). So each kind of block, and each pair of neighbours, is there, and what
// a block adds to the bytes that are live where it begins is the same in both graphs, in forward,
// backward and recompute. What is live where it begins is not: parameters, optimizer states and
// blocks before it are fewer. So is what dies behind a step of it although other blocks made it:
// what names hold to the end of forward, such as autocast's casts of weights.

namespace cairn {

struct ReducedGraph {
  Graph graph = {};
  std::vector<Block> blocks = {};           // with the kinds of the whole graph
  std::vector<std::int32_t> block_of = {};  // by block of the whole: its like among `blocks`
  std::vector<std::int32_t> whole_of = {};  // by block of `blocks`: the block of the whole it is
};

// `blocks` are the graph's (chain_blocks).
ReducedGraph reduced_graph(const Graph& graph, const std::vector<Block>& blocks);

// The tensor at the same place in block `b` of `graph_b` as `tensor`, made in block `a` of
// `graph_a`; the blocks are of one kind.
TensorId same_place(const Graph& graph_a, const Block& a, TensorId tensor, const Graph& graph_b,
                    const Block& b);

}  // namespace cairn
