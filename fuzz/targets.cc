#include "fuzz/targets.h"

#include <cstdint>
#include <string>

#include "graph/error.h"
#include "models/document.h"
#include "models/expression.h"
#include "models/fields.h"

namespace cairn::fuzz {
namespace {

// Reads every value as every type.
void read_all(const Document& document, const Node& node) {
  const auto attempt = [&](auto read) {
    try {
      read(document, node, "value");
    } catch (const InputError&) {
    }
  };
  attempt(to_integer);
  attempt(to_number);
  attempt(to_boolean);
  attempt(to_names);
  CAIRN_CHECK(message_at(document, position_within(document, node, 0), "here").size() > 4, "");
  for (const Node& item : node.items) read_all(document, item);
  for (const Entry& entry : node.entries) read_all(document, entry.value);
}

}  // namespace

void document(std::string_view bytes) {
  try {
    const Document parsed = parse_document("fuzz", std::string(bytes));
    read_all(parsed, parsed.root);
    if (parsed.root.kind == NodeKind::kMapping) {
      Fields fields(parsed, parsed.root, "the root");
      fields.find("name");
      fields.refuse_unknown();
    }
  } catch (const InputError&) {
  }
}

void expression(std::string_view bytes) {
  const Scope outer = {.values = {{"zero", integer_value(0)},
                                  {"one", integer_value(1)},
                                  {"least", integer_value(INT64_MIN)},
                                  {"most", integer_value(INT64_MAX)}}};
  const Scope scope = {
      .parent = &outer,
      .values = {{"half", number_value(0.5)}, {"a.b", integer_value(-7)}, {"t", text_value("x")}}};
  try {
    const Expression parsed = parse_expression(bytes);
    spell(evaluate(parsed, scope));
    evaluate_condition(parsed, scope);
    evaluate_integer(parsed, scope);
  } catch (const ExpressionError& error) {
    CAIRN_CHECK(error.offset() <= bytes.size(), error.what());
  }
}

}  // namespace cairn::fuzz
