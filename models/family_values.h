#pragma once

#include <cstdint>
#include <string>

#include "graph/data_type.h"
#include "graph/graph.h"
#include "models/family.h"

// The values of a family's expressions, once its dims have numbers. Errors of an expression are
// InputErrors at its place in the file it was read from.

namespace cairn {

Value evaluated(const PlacedExpression& expression, const Scope& scope);
bool holds(const PlacedExpression& expression, const Scope& scope);
std::int64_t integer(const PlacedExpression& expression, const Scope& scope);

// A type by its name, which was checked when the file was read; "activation" is `activation`.
DataType named_data_type(const std::string& name, DataType activation);

// Sizes must be positive, probabilities in [0, 1).
OpAttributes evaluate_attributes(const FamilyOp& op, const Scope& scope, DataType activation);

}  // namespace cairn
