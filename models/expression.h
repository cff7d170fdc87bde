#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

// Dimension expressions of family files: "heads * head_dim", "kv_heads if grouped else heads".
//
//   x if c else y · or · and · not · == != < <= > >= (no chains) · + - · * / // % · unary - · ( )
//   min(a, b) max(a, b) ceil_div(a, b) round_up(a, multiple) floor(a) sqrt(a) log(a) · 12, 0.1,
//   true, false, 'gelu', name
//
// Integers are exact 64-bit: overflow is an error, and so is '/' with a remainder ('//' rounds
// down, '%' has the divisor's sign). Numbers (doubles: dropout rates) mix with integers up to 2^53.
// Texts can only be compared, with texts, by == and !=. Conditions are integers, 0 false, and
// comparisons give 0 or 1. 'and', 'or' and 'if' evaluate only what they need.

namespace cairn {

enum class ValueKind { kInteger, kNumber, kText };

struct Value {
  ValueKind kind = ValueKind::kInteger;
  std::int64_t integer = 0;  // of kInteger
  double number = 0;         // of kNumber, finite
  std::string text = {};     // of kText
};

Value integer_value(std::int64_t integer);
Value number_value(double number);
Value text_value(std::string text);

// How a value reads in messages: 12, 0.5, 'gelu'.
std::string spell(const Value& value);

bool operator==(const Value& a, const Value& b);

// Names and their values. An inner scope hides the names of its parent.
struct Scope {
  const Scope* parent = nullptr;
  std::map<std::string, Value, std::less<>> values = {};
};

// The innermost value of `name`, or null.
const Value* find_value(const Scope& scope, std::string_view name);

// `offset` is where in the expression's text the fault lies, for a caret. what() does not say it.
class ExpressionError : public std::runtime_error {
 public:
  ExpressionError(const std::string& message, std::size_t offset)
      : std::runtime_error(message), offset_(offset) {}
  std::size_t offset() const { return offset_; }

 private:
  std::size_t offset_ = 0;
};

enum class Operation {
  kConstant,  // push constants[operand]
  kName,      // push the value of names[operand]
  kAdd,
  kSubtract,
  kMultiply,
  kDivide,
  kFloorDivide,
  kRemainder,
  kNegate,
  kFloor,
  kSquareRoot,
  kLogarithm,
  kNot,
  kEqual,
  kNotEqual,
  kLess,
  kLessEqual,
  kGreater,
  kGreaterEqual,
  kMin,
  kMax,
  kCeilDivide,
  kRoundUp,
  kCondition,    // replace the top by 0 or 1
  kJump,         // skip `operand` instructions
  kJumpIfFalse,  // pop, and skip when it is false
};

// One step of a stack machine. Operands are popped, the result is pushed.
struct Instruction {
  Operation operation = Operation::kConstant;
  std::uint32_t operand = 0;
  std::uint32_t begin = 0;  // [begin, end) is the part of the text that this computes
  std::uint32_t end = 0;
};

// A parsed expression: postfix code, so that evaluating needs no recursion.
struct Expression {
  std::string text = {};
  std::vector<Instruction> code = {};
  std::vector<Value> constants = {};
  std::vector<std::string> names = {};  // every name it mentions, once
};

// At most 64 levels of nesting and 10,000 characters. Throws ExpressionError, as do the others.
Expression parse_expression(std::string_view text);

Value evaluate(const Expression& expression, const Scope& scope);
std::int64_t evaluate_integer(const Expression& expression, const Scope& scope);
bool evaluate_condition(const Expression& expression, const Scope& scope);

}  // namespace cairn
