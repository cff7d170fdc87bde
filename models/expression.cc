#include "models/expression.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <utility>

#include "graph/error.h"
#include "models/source_text.h"

namespace cairn {
namespace {

constexpr std::int64_t kMaxExactInteger = std::int64_t{1} << 53;  // that every double can hold
constexpr std::int64_t kMinInteger = std::numeric_limits<std::int64_t>::min();

// One instruction at work: what its errors need.
struct Site {
  const Expression& expression;
  const Instruction& instruction;
};

[[noreturn]] void fail(const Site& site, const std::string& message) {
  const std::string_view text = site.expression.text;
  const std::size_t begin = site.instruction.begin;
  const std::string_view part = text.substr(begin, site.instruction.end - begin);
  throw ExpressionError("in " + in_quotes(part) + ": " + message, begin);
}

[[noreturn]] void fail_overflow(const Site& site, std::string_view symbol, std::int64_t a,
                                std::int64_t b) {
  fail(site, fmt::format("{} {} {} does not fit 64 bits", a, symbol, b));
}

bool is_true(const Site& site, const Value& value) {
  if (value.kind == ValueKind::kText) {
    fail(site, "expected a condition, found the text " + spell(value));
  }
  return value.kind == ValueKind::kInteger ? value.integer != 0 : value.number != 0;
}

double as_number(const Site& site, const Value& value) {
  if (value.kind == ValueKind::kNumber) return value.number;
  if (value.integer > kMaxExactInteger || value.integer < -kMaxExactInteger) {
    fail(site, fmt::format("{} is too large to mix with a fraction", value.integer));
  }
  return static_cast<double>(value.integer);
}

void refuse_zero(const Site& site, std::int64_t a, std::string_view symbol, std::int64_t b) {
  if (b == 0) fail(site, fmt::format("{} {} {} divides by zero", a, symbol, b));
}

std::int64_t floor_divide(const Site& site, std::int64_t a, std::int64_t b) {
  refuse_zero(site, a, "//", b);
  if (a == kMinInteger && b == -1) fail_overflow(site, "//", a, b);
  return a / b - (a % b != 0 && (a % b < 0) != (b < 0) ? 1 : 0);
}

std::int64_t remainder(const Site& site, std::int64_t a, std::int64_t b) {
  refuse_zero(site, a, "%", b);
  if (b == -1) return 0;  // also where a / b would not fit
  const std::int64_t rest = a % b;
  return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}

std::int64_t divide(const Site& site, std::int64_t a, std::int64_t b) {
  refuse_zero(site, a, "/", b);
  if (a == kMinInteger && b == -1) fail_overflow(site, "/", a, b);
  if (a % b != 0) {
    fail(site, fmt::format("{} / {} leaves a remainder of {} ('//' rounds down)", a, b,
                           remainder(site, a, b)));
  }
  return a / b;
}

std::int64_t ceil_divide(const Site& site, std::int64_t a, std::int64_t b) {
  return floor_divide(site, a, b) + (remainder(site, a, b) != 0 ? 1 : 0);
}

std::int64_t multiply(const Site& site, std::int64_t a, std::int64_t b) {
  std::int64_t result = 0;
  if (__builtin_mul_overflow(a, b, &result)) fail_overflow(site, "*", a, b);
  return result;
}

std::int64_t combine_integers(const Site& site, std::int64_t a, std::int64_t b) {
  std::int64_t result = 0;
  switch (site.instruction.operation) {
    case Operation::kAdd:
      if (__builtin_add_overflow(a, b, &result)) fail_overflow(site, "+", a, b);
      return result;
    case Operation::kSubtract:
      if (__builtin_sub_overflow(a, b, &result)) fail_overflow(site, "-", a, b);
      return result;
    case Operation::kMultiply:
      return multiply(site, a, b);
    case Operation::kDivide:
      return divide(site, a, b);
    case Operation::kFloorDivide:
      return floor_divide(site, a, b);
    case Operation::kRemainder:
      return remainder(site, a, b);
    case Operation::kMin:
      return std::min(a, b);
    case Operation::kMax:
      return std::max(a, b);
    case Operation::kCeilDivide:
      return ceil_divide(site, a, b);
    case Operation::kRoundUp:
      if (b <= 0) fail(site, fmt::format("expected a positive multiple, found {}", b));
      return multiply(site, ceil_divide(site, a, b), b);
    default:
      CAIRN_CHECK(false, "not an arithmetic operation: " + site.expression.text);
  }
  return result;
}

double combine_numbers(const Site& site, double a, double b) {
  switch (site.instruction.operation) {
    case Operation::kAdd:
      return a + b;
    case Operation::kSubtract:
      return a - b;
    case Operation::kMultiply:
      return a * b;
    case Operation::kDivide:
      return a / b;
    case Operation::kMin:
      return std::min(a, b);
    case Operation::kMax:
      return std::max(a, b);
    default:
      fail(site, fmt::format("expected two integers, found {} and {}", a, b));
  }
}

template <typename T>
bool compare(Operation operation, const T& a, const T& b) {
  switch (operation) {
    case Operation::kEqual:
      return a == b;
    case Operation::kNotEqual:
      return a != b;
    case Operation::kLess:
      return a < b;
    case Operation::kLessEqual:
      return a <= b;
    case Operation::kGreater:
      return a > b;
    default:
      return a >= b;
  }
}

bool is_comparison(Operation operation) {
  return operation >= Operation::kEqual && operation <= Operation::kGreaterEqual;
}

Value combine(const Site& site, const Value& a, const Value& b) {
  const Operation operation = site.instruction.operation;
  if (a.kind == ValueKind::kText || b.kind == ValueKind::kText) {
    const bool is_equality = operation == Operation::kEqual || operation == Operation::kNotEqual;
    if (!is_equality || a.kind != b.kind) {
      fail(site, fmt::format("expected two numbers{}, found {} and {}",
                             is_equality ? " or two texts" : "", spell(a), spell(b)));
    }
    return integer_value(compare(operation, a.text, b.text) ? 1 : 0);
  }
  if (a.kind == ValueKind::kInteger && b.kind == ValueKind::kInteger) {
    return integer_value(is_comparison(operation)
                             ? (compare(operation, a.integer, b.integer) ? 1 : 0)
                             : combine_integers(site, a.integer, b.integer));
  }
  const double a_number = as_number(site, a);
  const double b_number = as_number(site, b);
  if (is_comparison(operation)) {
    return integer_value(compare(operation, a_number, b_number) ? 1 : 0);
  }
  const double result = combine_numbers(site, a_number, b_number);
  if (!std::isfinite(result)) {
    fail(site, fmt::format("the result for {} and {} is not a finite number", spell(a), spell(b)));
  }
  return number_value(result);
}

Value negate(const Site& site, const Value& value) {
  if (value.kind == ValueKind::kText) fail(site, "expected a number, found " + spell(value));
  if (value.kind == ValueKind::kNumber) return number_value(-value.number);
  if (value.integer == kMinInteger) fail_overflow(site, "-", 0, value.integer);
  return integer_value(-value.integer);
}

// The largest integer that is not above the value.
Value floor_of(const Site& site, const Value& value) {
  if (value.kind == ValueKind::kInteger) return value;
  const double number = std::floor(as_number(site, value));
  constexpr double kMostExact = 9007199254740992.0;  // 2^53
  if (std::abs(number) > kMostExact) {
    fail(site, fmt::format("{} is past 2^53: expected a smaller number", spell(value)));
  }
  return integer_value(static_cast<std::int64_t>(number));
}

Value square_root(const Site& site, const Value& value) {
  if (value.kind == ValueKind::kText) fail(site, "expected a number, found " + spell(value));
  const double number = as_number(site, value);
  if (number < 0.0) fail(site, "expected zero or more, found " + spell(value));
  return number_value(std::sqrt(number));
}

Value logarithm(const Site& site, const Value& value) {
  if (value.kind == ValueKind::kText) fail(site, "expected a number, found " + spell(value));
  const double number = as_number(site, value);
  if (number <= 0.0) fail(site, "expected a number above 0, found " + spell(value));
  return number_value(std::log(number));
}

const Value& require_value(const Expression& expression, const Instruction& instruction,
                           const Scope& scope) {
  const std::string& name = expression.names[instruction.operand];
  if (const Value* value = find_value(scope, name)) return *value;
  std::vector<std::string> known;
  for (const Scope* level = &scope; level != nullptr; level = level->parent) {
    for (const auto& [known_name, value] : level->values) known.push_back(known_name);
  }
  throw ExpressionError("unknown name " + in_quotes(name) + did_you_mean(name, known),
                        instruction.begin);
}

}  // namespace

Value integer_value(std::int64_t integer) {
  return {.kind = ValueKind::kInteger, .integer = integer};
}

Value number_value(double number) { return {.kind = ValueKind::kNumber, .number = number}; }

Value text_value(std::string text) { return {.kind = ValueKind::kText, .text = std::move(text)}; }

std::string spell(const Value& value) {
  switch (value.kind) {
    case ValueKind::kInteger:
      return fmt::format("{}", value.integer);
    case ValueKind::kNumber:
      return fmt::format("{}", value.number);
    case ValueKind::kText:
      return in_quotes(value.text);
  }
  return {};
}

bool operator==(const Value& a, const Value& b) {
  return a.kind == b.kind && a.integer == b.integer && a.number == b.number && a.text == b.text;
}

const Value* find_value(const Scope& scope, std::string_view name) {
  for (const Scope* level = &scope; level != nullptr; level = level->parent) {
    const auto found = level->values.find(name);
    if (found != level->values.end()) return &found->second;
  }
  return nullptr;
}

Value evaluate(const Expression& expression, const Scope& scope) {
  if (expression.code.size() == 1) {  // most are one constant or name
    const Instruction& only = expression.code[0];
    if (only.operation == Operation::kConstant) return expression.constants[only.operand];
    if (only.operation == Operation::kName) return require_value(expression, only, scope);
  }
  std::vector<Value> stack;
  stack.reserve(8);
  for (std::size_t next = 0; next < expression.code.size(); ++next) {
    const Instruction& instruction = expression.code[next];
    const Site site = {.expression = expression, .instruction = instruction};
    switch (instruction.operation) {
      case Operation::kConstant:
        stack.push_back(expression.constants[instruction.operand]);
        break;
      case Operation::kName:
        stack.push_back(require_value(expression, instruction, scope));
        break;
      case Operation::kNegate:
        stack.back() = negate(site, stack.back());
        break;
      case Operation::kFloor:
        stack.back() = floor_of(site, stack.back());
        break;
      case Operation::kSquareRoot:
        stack.back() = square_root(site, stack.back());
        break;
      case Operation::kLogarithm:
        stack.back() = logarithm(site, stack.back());
        break;
      case Operation::kNot:
        stack.back() = integer_value(is_true(site, stack.back()) ? 0 : 1);
        break;
      case Operation::kCondition:
        stack.back() = integer_value(is_true(site, stack.back()) ? 1 : 0);
        break;
      case Operation::kJump:
        next += instruction.operand;
        break;
      case Operation::kJumpIfFalse:
        if (!is_true(site, stack.back())) next += instruction.operand;
        stack.pop_back();
        break;
      default: {
        const Value second = std::move(stack.back());
        stack.pop_back();
        stack.back() = combine(site, stack.back(), second);
      }
    }
  }
  CAIRN_CHECK(stack.size() == 1, "unbalanced code for: " + expression.text);
  return std::move(stack.back());
}

std::int64_t evaluate_integer(const Expression& expression, const Scope& scope) {
  const Value value = evaluate(expression, scope);
  if (value.kind == ValueKind::kInteger) return value.integer;
  throw ExpressionError(in_quotes(expression.text) + ": expected an integer, found " + spell(value),
                        0);
}

bool evaluate_condition(const Expression& expression, const Scope& scope) {
  const Value value = evaluate(expression, scope);
  if (value.kind == ValueKind::kText) {
    throw ExpressionError(
        in_quotes(expression.text) + ": expected a condition, found the text " + spell(value), 0);
  }
  return value.kind == ValueKind::kInteger ? value.integer != 0 : value.number != 0;
}

}  // namespace cairn
