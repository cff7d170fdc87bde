#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "models/document.h"

// Chain files: a chain of layers and a loss in a few lists of numbers, as papers on optimal
// checkpointing state them (Beaumont et al. 2019). docs/formats.md describes the format.
//
// What is made of one is a plain graph, in which a budget means what it means for the chain: x_0
// counts nothing, and its gradient counts in the first layer's Backward.

namespace cairn {

struct ChainFileLayer {
  std::int64_t output_bytes = 0;  // of the activation it makes
  std::int64_t saved_bytes = 0;   // what its Backward reads besides its input: output, auxiliaries
  std::int64_t workspace_bytes = 0;  // in forward and backward, whether the state is kept or not
  std::int64_t forward_ns = 0;
  std::int64_t backward_ns = 0;
};

struct ChainFile {
  std::string name = {};
  std::int64_t input_bytes = 0;             // x_0, which lies outside the budget
  std::vector<ChainFileLayer> layers = {};  // the last is the loss
  std::optional<std::int64_t> budget_bytes = {};
};

// Whether the document has the lists that only a chain file has.
bool is_chain_file(const Document& document);

// Throws InputError at the place of the fault; a document of another kind is named.
ChainFile read_chain_file(const Document& document);

// The chain as a plain graph file.
std::string chain_graph_text(const ChainFile& chain);

}  // namespace cairn
