#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "graph/plan.h"

// A plan in words: what happens to which layers, equal ones together.
//
//   layers 0-9: kept
//   layers 10-31: recomputed 2 at a time, but attn, q, k, v
//     layers 10: recomputed again
//   the rest: kept

namespace cairn {

struct PlanLine {
  std::size_t depth = 0;  // 1 for what is inside a region, ...
  std::string text = {};
};

// Of a plan without regions one line.
std::vector<PlanLine> plan_lines(const Graph& graph, const Plan& plan);

// The lines, indented and broken for a terminal; of more than `most_lines` the first, and how many
// there are besides.
std::string plan_words_text(const Graph& graph, const Plan& plan, std::size_t most_lines);

}  // namespace cairn
