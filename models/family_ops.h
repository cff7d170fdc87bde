#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "models/family.h"
#include "models/fields.h"

// The parts that family and layer files share: expressions in place, and lists of ops.

namespace cairn {

PlacedExpression parse_placed_expression(const Document& document, const Node& node,
                                         const std::string& what);

// Whether every op may have that key: op, in, out, if, weight, logits, cap, module, held_until.
bool is_op_key(std::string_view key);

// Throws for an op that would run for each item of a list, where there are none.
void refuse_each(const Document& document, const FamilyOp& op, std::string_view why);

// "require: [{that: condition, else: error}]".
std::vector<FamilyRequirement> parse_requirements(const Document& document, Fields& fields);

// An op from "- name: {op: kind, in: ..., ...}".
FamilyOp parse_family_op(const Document& document, const Node& item);

// The longest name or module path of a family's ops: each is spelled out once per repeated block.
inline constexpr std::size_t kLongestName = 200;
inline constexpr std::size_t kMostFamilyOps = 10'000;
inline constexpr std::size_t kLongestExpression = 500;  // evaluated once per repeated block

using Names = std::unordered_set<std::string>;

// The names that an op makes: its own, or those of its several outputs.
std::vector<std::string> made_names(const FamilyOp& op);

// Throws for an op that has what only an adapter's layer may: its base, its weights, their type.
void refuse_adapter_parts(const Document& document, const FamilyOp& op);

// Checks that every name the op reads is in `known`. `later` are names made after it, which only
// change the message.
void check_reads(const Document& document, const FamilyOp& op, const Names& known,
                 const Names& later);

// Checks that `ops` read only what is known or made before, and make no name twice. Returns what
// they make beyond what was known.
std::vector<std::string> check_op_names(const Document& document, const std::vector<FamilyOp>& ops,
                                        Names& known);

// Checks that what a list of ops holds until another is held until one behind it. A null op is a
// repeated block, named at its place in `blocks`.
void check_scopes(const Document& document, const std::vector<const FamilyOp*>& ops,
                  const std::vector<std::string>& blocks = {});

// Throws at `position` for a name that is too long.
void check_length(const Document& document, Position position, const std::string& what,
                  const std::string& name);

}  // namespace cairn
