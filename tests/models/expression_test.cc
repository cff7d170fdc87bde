#include "models/expression.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <string>

namespace cairn {
namespace {

Scope llama_scope() {
  return {.values = {{"heads", integer_value(32)},
                     {"head_dim", integer_value(128)},
                     {"hidden", integer_value(4096)},
                     {"most", integer_value(INT64_MAX)},
                     {"least", integer_value(INT64_MIN)},
                     {"dropout", number_value(0.1)},
                     {"rope.factor", integer_value(8)},
                     {"activation", text_value("gelu_new")}}};
}

std::int64_t integer_of(const std::string& text) {
  return evaluate_integer(parse_expression(text), llama_scope());
}

// "offset: message" with which the expression is refused.
std::string refusal_of(const std::string& text) {
  try {
    evaluate_integer(parse_expression(text), llama_scope());
  } catch (const ExpressionError& error) {
    return std::to_string(error.offset()) + ": " + error.what();
  }
  return "accepted";
}

std::string repeat(const std::string& part, int count) {
  std::string text;
  for (int i = 0; i < count; ++i) text += part;
  return text;
}

}  // namespace

TEST_CASE("arithmetic follows the usual precedence, from the left") {
  CHECK(integer_of("heads * head_dim") == 4096);
  CHECK(integer_of("1 + 2 * 3 - 4") == 3);
  CHECK(integer_of("(1 + 2) * -3") == -9);
  CHECK(integer_of("100 / 5 / 2") == 10);
  CHECK(integer_of("10 - 3 - 2") == 5);
  CHECK(integer_of("rope.factor * 2") == 16);
}

TEST_CASE("division is exact, '//' rounds down and '%' has the divisor's sign") {
  CHECK(integer_of("hidden / heads") == 128);
  CHECK(integer_of("-7 // 2") == -4);
  CHECK(integer_of("7 // -2") == -4);
  CHECK(integer_of("-7 % 2") == 1);
  CHECK(integer_of("7 % -2") == -1);
  CHECK(integer_of("least % -1") == 0);
  CHECK(refusal_of("1 + (hidden / 33)") ==
        "5: in 'hidden / 33': 4096 / 33 leaves a remainder of 4 ('//' rounds down)");
}

TEST_CASE("the functions round and choose") {
  CHECK(integer_of("ceil_div(7, 2)") == 4);
  CHECK(integer_of("ceil_div(-7, 2)") == -3);
  CHECK(integer_of("ceil_div(8, 2)") == 4);
  CHECK(integer_of("round_up(50257, 64)") == 50304);
  CHECK(integer_of("round_up(128, 64)") == 128);
  CHECK(integer_of("floor(96 * 0.75)") == 72);
  CHECK(integer_of("floor(0 - 1.5)") == -2);
  CHECK(integer_of("floor(7)") == 7);
  CHECK(evaluate(parse_expression("sqrt(16)"), {}) == number_value(4.0));
  CHECK(evaluate(parse_expression("log(1)"), {}) == number_value(0.0));
  CHECK(std::abs(evaluate(parse_expression("log(40)"), {}).number - 3.6888794541139363) < 1e-15);
  CHECK(refusal_of("log(0)") == "0: in 'log(0)': expected a number above 0, found 0");
  CHECK(refusal_of("log('a')") == "0: in 'log('a')': expected a number, found 'a'");
  CHECK(refusal_of("sqrt(0 - 1)") == "0: in 'sqrt(0 - 1)': expected zero or more, found -1");
  CHECK(refusal_of("sqrt('a')") == "0: in 'sqrt('a')': expected a number, found 'a'");
  CHECK(refusal_of("floor(1e300)") ==
        "0: in 'floor(1e300)': 1e+300 is past 2^53: expected a smaller number");
  CHECK(integer_of("min(heads, 8) + max(heads, 8)") == 40);
  CHECK(refusal_of("round_up(7, 0)") ==
        "0: in 'round_up(7, 0)': expected a positive multiple, found 0");
}

TEST_CASE("64 bits are exact to the last unit, and no further") {
  CHECK(integer_of("most - 1 + 1") == INT64_MAX);
  CHECK(integer_of("9007199254740993 * 1") == 9007199254740993);
  CHECK(refusal_of("most + 1") == "0: in 'most + 1': 9223372036854775807 + 1 does not fit 64 bits");
  CHECK(refusal_of("least - 1") ==
        "0: in 'least - 1': -9223372036854775808 - 1 does not fit 64 bits");
  CHECK(refusal_of("heads + most * 2") ==
        "8: in 'most * 2': 9223372036854775807 * 2 does not fit 64 bits");
  CHECK(refusal_of("least / -1") ==
        "0: in 'least / -1': -9223372036854775808 / -1 does not fit 64 bits");
  CHECK(refusal_of("least // -1") ==
        "0: in 'least // -1': -9223372036854775808 // -1 does not fit 64 bits");
  CHECK(refusal_of("-least") == "0: in '-least': 0 - -9223372036854775808 does not fit 64 bits");
  CHECK(refusal_of("round_up(most, 2)") ==
        "0: in 'round_up(most, 2)': 4611686018427387904 * 2 does not fit 64 bits");
  CHECK(refusal_of("9223372036854775808") ==
        "0: expected an integer within 64 bits, found a larger one");
}

TEST_CASE("division by zero is refused with its values") {
  CHECK(refusal_of("hidden / 0") == "0: in 'hidden / 0': 4096 / 0 divides by zero");
  CHECK(refusal_of("hidden // 0") == "0: in 'hidden // 0': 4096 // 0 divides by zero");
  CHECK(refusal_of("hidden % 0") == "0: in 'hidden % 0': 4096 % 0 divides by zero");
  CHECK(refusal_of("ceil_div(1, 0)") == "0: in 'ceil_div(1, 0)': 1 // 0 divides by zero");
}

TEST_CASE("comparisons and logic give 0 or 1") {
  CHECK(integer_of("heads == 32") == 1);
  CHECK(integer_of("heads != 32") == 0);
  CHECK(integer_of("heads <= 32 and heads >= 32") == 1);
  CHECK(integer_of("heads < 32 or heads > 32") == 0);
  CHECK(integer_of("5 and 7") == 1);
  CHECK(integer_of("0 or 7") == 1);
  CHECK(integer_of("0 or 0 or 3") == 1);
  CHECK(integer_of("1 and 1 and 0") == 0);
  CHECK(integer_of("not heads") == 0);
  CHECK(integer_of("not not true") == 1);
  CHECK(integer_of("not false and true") == 1);
  CHECK(integer_of("1 or 0 and 0") == 1);
}

TEST_CASE("a conditional chooses, and chains to the right") {
  CHECK(integer_of("1 if heads == 32 else 2") == 1);
  CHECK(integer_of("1 if heads != 32 else 2") == 2);
  CHECK(integer_of("1 if false else 2 if false else 3") == 3);
  CHECK(integer_of("1 + (2 if true else 3) * 2") == 5);
  CHECK(integer_of("(1 if true else 2) if (false or true) else 3") == 1);
}

TEST_CASE("what is not needed is not evaluated") {
  CHECK(integer_of("false and 1 / 0") == 0);
  CHECK(integer_of("true or absent") == 1);
  CHECK(integer_of("hidden if true else absent") == 4096);
  CHECK(integer_of("1 / 0 if false else 7") == 7);
}

TEST_CASE("texts compare with texts only") {
  CHECK(integer_of("activation == 'gelu_new'") == 1);
  CHECK(integer_of("activation != \"silu\"") == 1);
  CHECK(refusal_of("activation == 1") ==
        "0: in 'activation == 1': expected two numbers or two texts, found 'gelu_new' and 1");
  CHECK(refusal_of("activation < 'b'") ==
        "0: in 'activation < 'b'': expected two numbers, found 'gelu_new' and 'b'");
  CHECK(refusal_of("activation and 1") ==
        "0: in 'activation': expected a condition, found the text 'gelu_new'");
  CHECK(refusal_of("activation") == "0: 'activation': expected an integer, found 'gelu_new'");
}

TEST_CASE("numbers pass through, compare, and mix with integers they can hold") {
  CHECK(evaluate(parse_expression("dropout"), llama_scope()) == number_value(0.1));
  CHECK(evaluate(parse_expression("0.5 * 3"), llama_scope()) == number_value(1.5));
  CHECK(integer_of("dropout > 0") == 1);
  CHECK(integer_of("dropout == 0.1") == 1);
  CHECK(refusal_of("dropout < most") ==
        "0: in 'dropout < most': 9223372036854775807 is too large to mix with a fraction");
  CHECK(refusal_of("dropout // 2") ==
        "0: in 'dropout // 2': expected two integers, found 0.1 and 2");
  CHECK(refusal_of("dropout / 0") ==
        "0: in 'dropout / 0': the result for 0.1 and 0 is not a finite number");
}

TEST_CASE("an unknown name is refused with the nearest known one") {
  CHECK(refusal_of("2 * head_dims") == "4: unknown name 'head_dims'; did you mean 'head_dim'?");
  CHECK(refusal_of("zzzzzz") == "0: unknown name 'zzzzzz'");
}

TEST_CASE("an inner scope hides the names of its parent") {
  const Scope outer = llama_scope();
  const Scope inner = {.parent = &outer, .values = {{"heads", integer_value(8)}}};
  CHECK(evaluate_integer(parse_expression("heads * head_dim"), inner) == 1024);
  CHECK(evaluate_condition(parse_expression("heads == 8"), inner));
}

TEST_CASE("the names of an expression are known without evaluating it") {
  CHECK(parse_expression("a if b else a + c.d").names == std::vector<std::string>{"a", "b", "c.d"});
}

TEST_CASE("malformed expressions say what was expected, and where") {
  CHECK(refusal_of("") == "0: expected a value, found the end of the expression");
  CHECK(refusal_of("heads *") == "7: expected a value, found the end of the expression");
  CHECK(refusal_of("heads head_dim") == "6: expected an operator or the end, found 'h'");
  CHECK(refusal_of("(heads") == "6: expected ')', found the end of the expression");
  CHECK(refusal_of("heads)") == "5: expected an operator or the end, found ')'");
  CHECK(refusal_of("min(1)") == "5: expected ',', found ')'");
  CHECK(refusal_of("cbrt(1)") ==
        "0: unknown function 'cbrt'; expected one of: min, max, ceil_div, round_up, floor, sqrt, "
        "log");
  CHECK(refusal_of("1 if 2") == "6: expected 'else', found the end of the expression");
  CHECK(refusal_of("1 < 2 < 3") == "6: expected one comparison (join two by 'and'), found '<'");
  CHECK(refusal_of("4k") == "1: expected an operator after the number, found 'k'");
  CHECK(refusal_of("1_000") == "1: expected an operator after the number, found '_'");
  CHECK(refusal_of("'open") ==
        "0: expected a closing ' for this text, found the end of the expression");
  CHECK(refusal_of("heads = 1") == "6: expected an operator or the end, found '='");
  CHECK(refusal_of("and") == "0: expected a value, found 'a'");
}

TEST_CASE("nesting and length are bounded, chains are not") {
  CHECK(integer_of(repeat("(", 64) + "1" + repeat(")", 64)) == 1);
  CHECK(refusal_of(repeat("(", 5000)) == "65: expected at most 64 levels of nesting, found more");
  CHECK(refusal_of(repeat("-", 5000)) == "65: expected at most 64 levels of nesting, found more");
  CHECK(integer_of("0" + repeat("+1", 4000)) == 4000);
  CHECK(refusal_of(repeat(" ", 10001)) == "10000: expected at most 10000 characters, found more");
}

}  // namespace cairn
