#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "graph/data_type.h"
#include "graph/graph.h"
#include "models/family.h"

// The values of a family's expressions, once its dims have numbers. Errors of an expression are
// InputErrors at its place in the file it was read from.

namespace cairn {

Value evaluated(const PlacedExpression& expression, const Scope& scope);
bool holds(const PlacedExpression& expression, const Scope& scope);
std::int64_t integer(const PlacedExpression& expression, const Scope& scope);

// The types that a file may name by what they are of.
struct NamedTypes {
  DataType activation = DataType::kFloat32;  // of the first input of the layer file, if in one
  DataType parameter = DataType::kFloat32;
  DataType compute = DataType::kFloat32;    // of matrix products: autocast's, or the parameters'
  DataType adapter = DataType::kFloat32;    // of the weights of the adapter whose layer file it is
  DataType quantized = DataType::kFloat32;  // of those of weights in 4 bits
};

inline constexpr std::string_view kAdapterType = "adapter";

// What files may call a type: fp32, int64, ..., and the names in NamedTypes.
std::vector<std::string> type_names_of_files();

// A type by its name, which was checked when the file was read.
DataType named_data_type(const std::string& name, const NamedTypes& types);

// Sizes must be positive, probabilities in [0, 1).
OpAttributes evaluate_attributes(const FamilyOp& op, const Scope& scope, const NamedTypes& types);

}  // namespace cairn
