#include "models/family_values.h"

#include <fmt/format.h>

#include <array>
#include <limits>
#include <string_view>

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

std::int64_t size_from(const PlacedExpression& expression, const Scope& scope, std::int64_t least) {
  const std::int64_t value = integer(expression, scope);
  if (value >= least) return value;
  refuse(expression, integer_value(value),
         least == 1 ? "it must be positive" : "it must be zero or more");
}

// Attributes that are one expression, by what it must be. The others are `dtype` and `widths`.
struct SizeRow {
  AttributeKey key = AttributeKey::kWidth;
  std::int64_t OpAttributes::*member = nullptr;
  std::int64_t least = 1;
};

constexpr std::array<SizeRow, 12> kSizes = {
    {{AttributeKey::kWidth, &OpAttributes::width},
     {AttributeKey::kRows, &OpAttributes::rows},
     {AttributeKey::kParts, &OpAttributes::parts},
     {AttributeKey::kHeads, &OpAttributes::heads},
     {AttributeKey::kKvHeads, &OpAttributes::kv_heads},
     {AttributeKey::kWindow, &OpAttributes::window, 0},
     {AttributeKey::kKernel, &OpAttributes::kernel},
     {AttributeKey::kStride, &OpAttributes::stride},
     {AttributeKey::kPadding, &OpAttributes::padding, 0},
     {AttributeKey::kGroups, &OpAttributes::groups},
     {AttributeKey::kLargestCount, &OpAttributes::largest_count},
     {AttributeKey::kExperts, &OpAttributes::experts}}};

// Any integer: the kind says which are among its parts or dims.
struct IndexRow {
  AttributeKey key = AttributeKey::kPart;
  std::int64_t OpAttributes::*member = nullptr;
};

constexpr std::array<IndexRow, 2> kIndices = {
    {{AttributeKey::kPart, &OpAttributes::part}, {AttributeKey::kAxis, &OpAttributes::axis}}};

struct FlagRow {
  AttributeKey key = AttributeKey::kBias;
  bool OpAttributes::*member = nullptr;
};

constexpr std::array<FlagRow, 10> kFlags = {
    {{AttributeKey::kBias, &OpAttributes::bias},
     {AttributeKey::kInPlace, &OpAttributes::in_place},
     {AttributeKey::kGradientInPlace, &OpAttributes::gradient_in_place},
     {AttributeKey::kCausal, &OpAttributes::causal},
     {AttributeKey::kSinks, &OpAttributes::sinks},
     {AttributeKey::kFp4, &OpAttributes::fp4},
     {AttributeKey::kNested, &OpAttributes::nested},
     {AttributeKey::kTanhForm, &OpAttributes::tanh_form},
     {AttributeKey::kOneSided, &OpAttributes::one_sided},
     {AttributeKey::kPairs, &OpAttributes::pairs}}};

// A number within [least, most).
struct NumberRow {
  AttributeKey key = AttributeKey::kProbability;
  double OpAttributes::*member = nullptr;
  double least = 0.0;
  double most = 0.0;
  std::string_view expected = {};
};

constexpr double kMostNumber = std::numeric_limits<double>::max();
constexpr double kMostLoad = 1e6;  // `dispatch` knows a lower bound, of its experts

constexpr std::array<NumberRow, 4> kNumbers = {
    {{AttributeKey::kProbability, &OpAttributes::probability, 0.0, 1.0, "a probability in [0, 1)"},
     {AttributeKey::kSoftcap, &OpAttributes::softcap, 0.0, kMostNumber, "zero or more"},
     {AttributeKey::kImbalance, &OpAttributes::imbalance, 1.0, kMostLoad, "1.0 or more"},
     {AttributeKey::kCapacity, &OpAttributes::capacity, 0.0, kMostLoad, "zero or more"}}};

double number_of(const Value& value) {
  return value.kind == ValueKind::kInteger ? static_cast<double>(value.integer) : value.number;
}

double any_number(const PlacedExpression& expression, const Scope& scope) {
  const Value value = evaluated(expression, scope);
  if (value.kind != ValueKind::kText) return number_of(value);
  refuse(expression, value, "expected a number");
}

double number_within(const NumberRow& row, const PlacedExpression& expression, const Scope& scope) {
  const Value value = evaluated(expression, scope);
  const double number = number_of(value);
  if (value.kind != ValueKind::kText && number >= row.least && number < row.most) return number;
  refuse(expression, value, fmt::format("expected {}", row.expected));
}

void set_attribute(AttributeKey key, const PlacedExpression& expression, const Scope& scope,
                   OpAttributes& attributes) {
  for (const SizeRow& row : kSizes) {
    if (row.key == key) attributes.*row.member = size_from(expression, scope, row.least);
  }
  for (const IndexRow& row : kIndices) {
    if (row.key == key) attributes.*row.member = integer(expression, scope);
  }
  for (const FlagRow& row : kFlags) {
    if (row.key == key) attributes.*row.member = holds(expression, scope);
  }
  for (const NumberRow& row : kNumbers) {
    if (row.key == key) attributes.*row.member = number_within(row, expression, scope);
  }
  if (key == AttributeKey::kConstant) attributes.constant = any_number(expression, scope);
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

std::vector<std::string> type_names_of_files() {
  std::vector<std::string> names = data_type_names();
  names.emplace_back("activation");
  names.emplace_back("parameter");
  names.emplace_back("compute");
  names.emplace_back(kAdapterType);
  names.emplace_back("quantized");
  return names;
}

DataType named_data_type(const std::string& name, const NamedTypes& types) {
  if (name == "activation") return types.activation;
  if (name == "parameter") return types.parameter;
  if (name == "compute") return types.compute;
  if (name == kAdapterType) return types.adapter;
  if (name == "quantized") return types.quantized;
  return *find_data_type(name);
}

OpAttributes evaluate_attributes(const FamilyOp& op, const Scope& scope, const NamedTypes& types) {
  OpAttributes attributes;
  if (!op.data_type.empty()) attributes.data_type = named_data_type(op.data_type, types);
  for (const auto& [key, expression] : op.attributes) {
    set_attribute(key, expression, scope, attributes);
  }
  for (const PlacedExpression& width : op.widths) {
    attributes.widths.push_back(size_from(width, scope, op.kind->skips_empty_widths ? 0 : 1));
  }
  return attributes;
}

}  // namespace cairn
