#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "graph/graph.h"

// One block of a graph as `cairn show` prints it: its ops, and what autograd saves for them.

namespace cairn {

// The ops of a block; all of them for a graph without blocks. Throws InputError for a block that
// is not there.
std::vector<OpId> ops_of_block(const Graph& graph, std::int64_t block);

// "layers.3." of the op "layers.3.attn", "layer2.2." of "layer2.2.conv1" in block 5: up to the
// block's own number, else the first number between dots; "" for names without any.
std::string block_prefix(const Op& op);

// What the ops save for backward, each storage once, parameters and graph inputs left out: these
// are live anyway.
struct SavedBytes {
  std::int64_t total_bytes = 0;
  std::int64_t auxiliary_bytes = 0;  // of it: statistics, masks
};
SavedBytes saved_bytes(const Graph& graph, const std::vector<OpId>& ops);

// What the ops read that others made: what a checkpoint in front of the block holds.
std::int64_t input_bytes(const Graph& graph, const std::vector<OpId>& ops);

// The saved tensors of one op, parameters left out.
std::vector<TensorId> saved_activations(const Graph& graph, const Op& op);

// "[1, 2048, 4096] bf16", or "" where only bytes are known.
std::string shape_text(const Tensor& tensor);

// Graphviz: ops, the tensors between them, saved ones drawn bold.
std::string block_dot(const Graph& graph, const std::vector<OpId>& ops);

}  // namespace cairn
