#pragma once

#include <string>
#include <vector>

#include "graph/graph.h"

// One op of a kind, and what was derived for it as one line of text:
//
//   types and shapes of the outputs | aux: auxiliaries | saves: what Backward reads
//     | aliases: inputs whose gradient is the output's | gradients: over what they are written
//     | flops, moved, workspace: forward /
//     backward

namespace cairn {

struct Given {
  std::string name = {};
  Shape shape = {};
  DataType type = DataType::kBFloat16;
  bool requires_grad = true;
};

// Builds the one op "out".
Graph graph_of(const std::string& kind, const OpAttributes& attributes,
               const std::vector<Given>& inputs, bool trainable);

// Outputs, auxiliaries, saved tensors and aliases.
std::string derived_text(const Graph& graph, const Op& op);
std::string derived(const std::string& kind, const OpAttributes& attributes,
                    const std::vector<Given>& inputs, bool trainable = true);

// Forward / backward.
std::string costs(const std::string& kind, const OpAttributes& attributes,
                  const std::vector<Given>& inputs, bool trainable = true);

std::string refusal(const std::string& kind, const OpAttributes& attributes,
                    const std::vector<Given>& inputs);

}  // namespace cairn
