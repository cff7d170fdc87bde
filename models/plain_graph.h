#pragma once

#include <cstdint>

#include "graph/graph.h"
#include "graph/optimizer_rule.h"
#include "models/document.h"

// Plain graph files: ops, tensors, bytes, FLOPs, times and what is saved, with no symbols left.
// docs/formats.md describes the format.

namespace cairn {

// Whether the document claims to be a plain graph (its root has `cairn_graph`).
bool is_plain_graph(const Document& document);

// Throws InputError at the place of the fault: unknown keys, names used twice, a tensor read before
// it is made, a cycle, bytes that are negative or absurd.
Graph read_plain_graph(const Document& document, const OptimizerRule& optimizer);

}  // namespace cairn
