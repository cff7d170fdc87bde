#include "models/fields.h"

#include <doctest/doctest.h>

#include <string>
#include <string_view>

#include "graph/error.h"

namespace cairn {
namespace {

// The first line of the message with which `read` refuses the mapping `text`.
template <typename Read>
std::string refusal_of(const std::string& text, Read read) {
  try {
    const Document document = parse_document("file", text);
    Fields fields(document, document.root, "op 'attn'");
    read(fields);
  } catch (const InputError& error) {
    const std::string message = error.what();
    return message.substr(0, message.find('\n'));
  }
  return "accepted";
}

std::string integer_refusal(const std::string& value) {
  return refusal_of("out: " + value, [](Fields& fields) { fields.integer("out"); });
}

std::string number_refusal(const std::string& value) {
  return refusal_of("out: " + value, [](Fields& fields) { fields.number("out"); });
}

std::int64_t integer_of(const std::string& value) {
  const Document document = parse_document("file", value);
  return to_integer(document, document.root, "value");
}

double number_of(const std::string& value) {
  const Document document = parse_document("file", value);
  return to_number(document, document.root, "value");
}

}  // namespace

TEST_CASE("fields of every type are read from one mapping") {
  const Document document = parse_document(
      "file", "out: 4096\nrate: 0.1\ncausal: true\nop: linear\nin: [q, k]\nweight: w\n");
  Fields fields(document, document.root, "op 'attn'");
  CHECK(fields.integer("out") == 4096);
  CHECK(fields.number("rate") == 0.1);
  CHECK(fields.boolean("causal"));
  CHECK(fields.text("op") == "linear");
  CHECK(fields.names("in") == std::vector<std::string>{"q", "k"});
  CHECK(fields.names("weight") == std::vector<std::string>{"w"});
  CHECK(fields.list("in").size() == 2);
  CHECK_NOTHROW(fields.refuse_unknown());
}

TEST_CASE("an absent or null field is no value to the optional readers") {
  const Document document = parse_document("file", "out: null\n");
  Fields fields(document, document.root, "op 'attn'");
  CHECK_FALSE(fields.optional_integer("out").has_value());
  CHECK_FALSE(fields.optional_number("rate").has_value());
  CHECK_FALSE(fields.optional_boolean("causal").has_value());
  CHECK_FALSE(fields.optional_text("op").has_value());
  CHECK(fields.optional_names("in").empty());
}

TEST_CASE("integers are exact to 64 bits, and may be written as 4096.0") {
  CHECK(integer_of("9223372036854775807") == INT64_MAX);
  CHECK(integer_of("-9223372036854775808") == INT64_MIN);
  CHECK(integer_of("4096.0") == 4096);
  CHECK(integer_of("0") == 0);
  CHECK(integer_refusal("9223372036854775808") ==
        "file:1:6: op 'attn': key 'out': expected an integer within 64 bits, found "
        "'9223372036854775808'");
}

TEST_CASE("what only resembles an integer is refused") {
  const std::string begin = "file:1:6: op 'attn': key 'out': expected an integer, found ";
  CHECK(integer_refusal("4096.5") == begin + "'4096.5'");
  CHECK(integer_refusal("1e3") == begin + "'1e3'");
  CHECK(integer_refusal("1_000") == begin + "'1_000'");
  CHECK(integer_refusal("0x10") == begin + "'0x10'");
  CHECK(integer_refusal("'4096'") == begin + "the text '4096'");
  CHECK(integer_refusal("--1") == begin + "'--1'");
  CHECK(integer_refusal("4096.") == begin + "'4096.'");
  CHECK(integer_refusal("[1]") == begin + "a list");
  CHECK(integer_refusal("{a: 1}") == begin + "a mapping");
  CHECK(integer_refusal("007") ==
        "file:1:6: op 'attn': key 'out': expected an integer without leading zeros, found '007'");
}

TEST_CASE("numbers are finite") {
  CHECK(number_of("1e-5") == 1e-5);
  CHECK(number_of("3") == 3.0);
  CHECK(number_refusal("NaN") ==
        "file:1:6: op 'attn': key 'out': expected a finite number, found 'NaN'");
  CHECK(number_refusal("-Infinity") ==
        "file:1:6: op 'attn': key 'out': expected a finite number, found '-Infinity'");
  CHECK(number_refusal("1e999") ==
        "file:1:6: op 'attn': key 'out': expected a number that fits a double, found '1e999'");
  CHECK(number_refusal("0.1x") ==
        "file:1:6: op 'attn': key 'out': expected a number, found '0.1x'");
}

TEST_CASE("only true and false are booleans") {
  CHECK(refusal_of("causal: yes", [](Fields& fields) { fields.boolean("causal"); }) ==
        "file:1:9: op 'attn': key 'causal': expected true or false, found 'yes'");
  CHECK(refusal_of("causal: 'true'", [](Fields& fields) { fields.boolean("causal"); }) ==
        "file:1:9: op 'attn': key 'causal': expected true or false, found the text 'true'");
}

TEST_CASE("names are scalars") {
  CHECK(refusal_of("in: [q, [k]]", [](Fields& fields) { fields.names("in"); }) ==
        "file:1:9: op 'attn': key 'in': expected a text, found a list");
  CHECK(refusal_of("in: {q: k}", [](Fields& fields) { fields.names("in"); }) ==
        "file:1:5: op 'attn': key 'in': expected a name or a list of names, found a mapping");
}

TEST_CASE("a missing key is named, at its mapping") {
  CHECK(refusal_of("op: add", [](Fields& fields) { fields.require("in"); }) ==
        "file:1:1: op 'attn': missing key 'in'");
}

TEST_CASE("a required key without a value is refused at the key") {
  CHECK(refusal_of("op: add\nin:\n", [](Fields& fields) { fields.require("in"); }) ==
        "file:2:1: op 'attn': key 'in': expected a value, found nothing");
}

TEST_CASE("an unknown key is refused with the nearest known one") {
  const auto read = [](Fields& fields) {
    fields.optional_text("op");
    fields.optional_boolean("causal");
    fields.refuse_unknown();
  };
  CHECK(refusal_of("op: attention\ncausl: true\n", read) ==
        "file:2:1: op 'attn': unknown key 'causl'; did you mean 'causal'?");
  CHECK(refusal_of("op: attention\nworkspace: 1\n", read) ==
        "file:2:1: op 'attn': unknown key 'workspace'; expected one of: op, causal");
}

TEST_CASE("a list is not a mapping") {
  CHECK(refusal_of("[a]", [](Fields&) {}) ==
        "file:1:1: op 'attn': expected a mapping, found a list");
}

}  // namespace cairn
