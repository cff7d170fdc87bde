#pragma once

#include <string>
#include <vector>

#include "graph/graph.h"

namespace cairn {

// One line where no parameter in some layers or before them is trained: that they keep nothing for
// the backward, or what runs it through them all the same. One more where it is the embeddings'
// gradient that runs it.
std::vector<std::string> frozen_layer_notes(const Graph& graph);

}  // namespace cairn
