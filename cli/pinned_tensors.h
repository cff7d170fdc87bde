#pragma once

#include <string>
#include <vector>

#include "graph/graph.h"

// Which tensors --keep and --recompute name: a tensor, an op (all that it makes), or with `*` and
// `?` any number of them; "layers.3" names all there is in layer 3.

namespace cairn {

struct PinnedTensors {
  std::vector<TensorId> keep = {};  // in order of id, no repeats
  std::vector<TensorId> recompute = {};
};

// Patterns take the tensors that some Backward reads; a name that stands for one op or tensor alone
// takes that. Throws InputError for a pattern that names none, and what both name.
PinnedTensors pinned_tensors(const Graph& graph, const std::vector<std::string>& keep,
                             const std::vector<std::string>& recompute);

}  // namespace cairn
