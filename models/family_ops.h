#pragma once

#include <string>
#include <vector>

#include "models/family.h"
#include "models/fields.h"

// The parts that family and layer files share: expressions in place, and lists of ops.

namespace cairn {

PlacedExpression parse_placed_expression(const Document& document, const Node& node,
                                         const std::string& what);

// An op from "- name: {op: kind, in: ..., ...}".
FamilyOp parse_family_op(const Document& document, const Node& item);

// Checks that every name an op reads is known by then, and that no name is used twice.
// `known` grows by the ops' names.
void check_op_names(const Document& document, const std::vector<FamilyOp>& ops,
                    std::vector<std::string>& known);

}  // namespace cairn
