#pragma once

#include <string>

#include "graph/graph.h"
#include "graph/plan.h"

// Shared by tests that compare whole timelines.

namespace cairn::test {

// Lowers, validates and replays: "C a 20/20, R b 30/20, ..." (bytes during / after each step).
std::string timeline(const Graph& graph, const Plan& plan);

// The last part of a timeline, from the first Backward on.
std::string backward_timeline(const Graph& graph, const Plan& plan);

// "40 at B add, extra 3": the peak, its step, and the extra forward time in ns.
std::string peak_and_extra(const Graph& graph, const Plan& plan);

}  // namespace cairn::test
