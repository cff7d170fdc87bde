#include "models/family_values.h"

#include <fmt/format.h>

namespace cairn {
namespace {

template <typename Result>
Result placed(const PlacedExpression& expression, const Scope& scope,
              Result (*evaluate_it)(const Expression&, const Scope&)) {
  try {
    return evaluate_it(expression.expression, scope);
  } catch (const ExpressionError& error) {
    fail_at(*expression.document,
            position_within(*expression.document, *expression.node, error.offset()), error.what());
  }
}

[[noreturn]] void refuse(const PlacedExpression& expression, const Value& value,
                         const std::string& expected) {
  fail_at(*expression.document, expression.node->position,
          fmt::format("'{}' is {}; {}", expression.expression.text, spell(value), expected));
}

std::int64_t positive(const PlacedExpression& expression, const Scope& scope) {
  const std::int64_t value = integer(expression, scope);
  if (value < 1) refuse(expression, integer_value(value), "it must be positive");
  return value;
}

std::int64_t zero_or_more(const PlacedExpression& expression, const Scope& scope) {
  const std::int64_t value = integer(expression, scope);
  if (value < 0) refuse(expression, integer_value(value), "it must be zero or more");
  return value;
}

// A number within [least, most).
double number_within(const PlacedExpression& expression, const Scope& scope, double least,
                     double most, const std::string& expected) {
  const Value value = evaluated(expression, scope);
  const double number =
      value.kind == ValueKind::kInteger ? static_cast<double>(value.integer) : value.number;
  if (value.kind != ValueKind::kText && number >= least && number < most) return number;
  refuse(expression, value, "expected " + expected);
}

constexpr double kMostImbalance = 1e6;

void set_attribute(AttributeKey key, const PlacedExpression& expression, const Scope& scope,
                   OpAttributes& attributes) {
  switch (key) {
    case AttributeKey::kWidth:
      attributes.width = positive(expression, scope);
      break;
    case AttributeKey::kRows:
      attributes.rows = positive(expression, scope);
      break;
    case AttributeKey::kHeads:
      attributes.heads = positive(expression, scope);
      break;
    case AttributeKey::kKvHeads:
      attributes.kv_heads = positive(expression, scope);
      break;
    case AttributeKey::kParts:
      attributes.parts = positive(expression, scope);
      break;
    case AttributeKey::kPart:
      attributes.part = integer(expression, scope);
      break;
    case AttributeKey::kBias:
      attributes.bias = holds(expression, scope);
      break;
    case AttributeKey::kCausal:
      attributes.causal = holds(expression, scope);
      break;
    case AttributeKey::kProbability:
      attributes.probability =
          number_within(expression, scope, 0.0, 1.0, "a probability in [0, 1)");
      break;
    case AttributeKey::kKernel:
      attributes.kernel = positive(expression, scope);
      break;
    case AttributeKey::kStride:
      attributes.stride = positive(expression, scope);
      break;
    case AttributeKey::kPadding:
      attributes.padding = zero_or_more(expression, scope);
      break;
    case AttributeKey::kGroups:
      attributes.groups = positive(expression, scope);
      break;
    case AttributeKey::kAxis:
      attributes.axis = integer(expression, scope);
      break;
    case AttributeKey::kWindow:
      attributes.window = zero_or_more(expression, scope);
      break;
    case AttributeKey::kSoftcap:
      attributes.softcap = holds(expression, scope);
      break;
    case AttributeKey::kInPlace:
      attributes.in_place = holds(expression, scope);
      break;
    case AttributeKey::kSinks:
      attributes.sinks = holds(expression, scope);
      break;
    case AttributeKey::kExperts:
      attributes.experts = positive(expression, scope);
      break;
    case AttributeKey::kExpertsPerToken:
      attributes.experts_per_token = positive(expression, scope);
      break;
    case AttributeKey::kImbalance:
      attributes.imbalance = number_within(expression, scope, 1.0, kMostImbalance, "1.0 or more");
      break;
    case AttributeKey::kCapacity:
      attributes.capacity = number_within(expression, scope, 0.0, kMostImbalance, "zero or more");
      break;
    case AttributeKey::kDataType:
    case AttributeKey::kWidths:
      break;  // not one expression
  }
}

}  // namespace

Value evaluated(const PlacedExpression& expression, const Scope& scope) {
  return placed(expression, scope, evaluate);
}

bool holds(const PlacedExpression& expression, const Scope& scope) {
  return placed(expression, scope, evaluate_condition);
}

std::int64_t integer(const PlacedExpression& expression, const Scope& scope) {
  return placed(expression, scope, evaluate_integer);
}

DataType named_data_type(const std::string& name, DataType activation) {
  return name == "activation" ? activation : *find_data_type(name);
}

OpAttributes evaluate_attributes(const FamilyOp& op, const Scope& scope, DataType activation) {
  OpAttributes attributes;
  if (!op.data_type.empty()) attributes.data_type = named_data_type(op.data_type, activation);
  for (const auto& [key, expression] : op.attributes) {
    set_attribute(key, expression, scope, attributes);
  }
  for (const PlacedExpression& width : op.widths) {
    attributes.widths.push_back(positive(width, scope));
  }
  return attributes;
}

}  // namespace cairn
