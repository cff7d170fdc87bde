#pragma once

#include <optional>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "planner/keep_frontier.h"

// What a keep list does, by lowering and simulating the plan: the oracle of keep_frontier.

namespace cairn::test {

struct Outcome {
  KeepSet set = {};
  std::vector<OpId> recomputed = {};
};

// Of a region over the span in a graph that is kept otherwise; nothing where `lower` refuses it.
std::optional<Outcome> outcome_of(const Graph& graph, const Span& span, const Setting& setting,
                                  const OpCosts& costs, const std::vector<TensorId>& keep);

// Whether the list is one that keep_frontier.h claims to look at.
bool is_claimed(const Graph& graph, const Outcome& outcome);

// In held bytes, cost and backward peak.
bool is_as_good(const KeepSet& a, const KeepSet& b);

std::string set_text(const Graph& graph, const KeepSet& set);

// One line an op, for a failure.
std::string graph_text(const Graph& graph);

// The set's numbers are those of the oracle.
void check_numbers(const Graph& graph, const Span& span, const Setting& setting,
                   const OpCosts& costs, const KeepSet& set);

}  // namespace cairn::test
