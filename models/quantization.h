#pragma once

#include <string>
#include <vector>

#include "graph/data_type.h"
#include "graph/graph.h"
#include "graph/recipe.h"
#include "models/family.h"

// A recipe with quantised weights: what it means for a family, and whether it means anything.

namespace cairn {

// What products of 4-bit weights are computed in.
DataType quantized_compute_type(const Recipe& recipe);

// Besides what the user leaves out, what the family's library does.
void skip_unquantized(const Family& family, Quantization& quantization);

// Throws InputError where no linear layer is quantised, a pattern of what is left out names none of
// `asked`, nothing is left to train, or nothing says what else is.
void check_quantized(const Graph& graph, const Recipe& recipe, const Quantization& asked);

// What the reader has to know of a model with quantised weights.
std::vector<std::string> quantization_notes(const Graph& graph, const Recipe& recipe);

}  // namespace cairn
