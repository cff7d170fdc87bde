#pragma once

#include <cstdint>
#include <random>

#include "graph/graph.h"
#include "graph/plan.h"
#include "graph/training_step.h"

// Small random graphs and plans, the same on every machine for the same seed. They are made to be
// awkward, not to look like models: views, shared gradients, ops off the loss's path, ops that may
// not run twice, tensors of no bytes.

namespace cairn {

using Random = std::mt19937_64;

// A whole number in [0, count).
std::size_t pick(Random& random, std::size_t count);

// True once in `count` times.
bool one_in(Random& random, std::size_t count);

// 4 to 12 ops and a loss, perhaps with an op behind the loss.
Graph random_graph(Random& random);

// One that does not contradict itself.
TrainingStep random_training_step(Random& random);
// The graph, with buffers for the gradients where the step has main gradients.
Graph with_main_gradients(Graph graph, const TrainingStep& step);

// A topological order, regions up to three deep, and keep lists of which every entry is read.
Plan random_plan(const Graph& graph, Extent extent, Random& random);

}  // namespace cairn
