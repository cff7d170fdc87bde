#include "models/family_values.h"

#include <fmt/format.h>

namespace cairn {
namespace {

template <typename Result>
Result placed(const Document& document, const PlacedExpression& expression, const Scope& scope,
              Result (*evaluate_it)(const Expression&, const Scope&)) {
  try {
    return evaluate_it(expression.expression, scope);
  } catch (const ExpressionError& error) {
    fail_at(document, position_within(document, *expression.node, error.offset()), error.what());
  }
}

std::int64_t positive(const Document& document, const PlacedExpression& expression,
                      const Scope& scope) {
  const std::int64_t value = integer(document, expression, scope);
  if (value >= 1) return value;
  fail_at(document, expression.node->position,
          fmt::format("'{}' is {}; it must be positive", expression.expression.text, value));
}

double probability(const Document& document, const PlacedExpression& expression,
                   const Scope& scope) {
  const Value value = evaluated(document, expression, scope);
  const double number =
      value.kind == ValueKind::kInteger ? static_cast<double>(value.integer) : value.number;
  if (value.kind != ValueKind::kText && number >= 0.0 && number < 1.0) return number;
  fail_at(document, expression.node->position,
          fmt::format("'{}' is {}; expected a probability in [0, 1)", expression.expression.text,
                      spell(value)));
}

}  // namespace

Value evaluated(const Document& document, const PlacedExpression& expression, const Scope& scope) {
  return placed(document, expression, scope, evaluate);
}

bool holds(const Document& document, const PlacedExpression& expression, const Scope& scope) {
  return placed(document, expression, scope, evaluate_condition);
}

std::int64_t integer(const Document& document, const PlacedExpression& expression,
                     const Scope& scope) {
  return placed(document, expression, scope, evaluate_integer);
}

DataType named_data_type(const std::string& name, DataType activation) {
  return name == "activation" ? activation : *find_data_type(name);
}

OpAttributes evaluate_attributes(const Document& document, const FamilyOp& op, const Scope& scope,
                                 DataType activation) {
  OpAttributes attributes;
  if (!op.data_type.empty()) attributes.data_type = named_data_type(op.data_type, activation);
  for (const auto& [key, expression] : op.attributes) {
    switch (key) {
      case AttributeKey::kWidth:
        attributes.width = positive(document, expression, scope);
        break;
      case AttributeKey::kRows:
        attributes.rows = positive(document, expression, scope);
        break;
      case AttributeKey::kHeads:
        attributes.heads = positive(document, expression, scope);
        break;
      case AttributeKey::kKvHeads:
        attributes.kv_heads = positive(document, expression, scope);
        break;
      case AttributeKey::kParts:
        attributes.parts = positive(document, expression, scope);
        break;
      case AttributeKey::kPart:
        attributes.part = integer(document, expression, scope);
        break;
      case AttributeKey::kBias:
        attributes.bias = holds(document, expression, scope);
        break;
      case AttributeKey::kCausal:
        attributes.causal = holds(document, expression, scope);
        break;
      case AttributeKey::kProbability:
        attributes.probability = probability(document, expression, scope);
        break;
      case AttributeKey::kDataType:
        break;
    }
  }
  return attributes;
}

}  // namespace cairn
