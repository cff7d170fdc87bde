#include "models/family_ops.h"

#include <fmt/format.h>

#include <algorithm>

#include "graph/data_type.h"
#include "graph/error.h"

namespace cairn {
namespace {

const OpKindInfo* kind_named(const Document& document, Fields& fields) {
  const Node& node = fields.require("op");
  const std::string name = to_text(document, node, fields.what_of("op"));
  const OpKindInfo* kind = find_op_kind(name);
  if (kind != nullptr && kind->derive != nullptr) return kind;
  fail_at(document, node.position,
          fmt::format("{}: unknown op kind '{}'{}", fields.what_of("op"), name,
                      did_you_mean(name, op_kind_names())));
}

SharedWeight parse_shared_weight(const Document& document, const Node& node,
                                 const std::string& what) {
  if (node.kind != NodeKind::kMapping) return {.op_name = to_text(document, node, what)};
  Fields fields(document, node, what);
  SharedWeight shared{.op_name = fields.text("of")};
  if (const Node* condition = fields.find("if")) {
    shared.condition = parse_placed_expression(document, *condition, fields.what_of("if"));
  }
  fields.refuse_unknown();
  return shared;
}

void parse_attributes(const Document& document, Fields& fields, FamilyOp& op) {
  for (const AttributeKey key : op.kind->attributes) {
    const std::string_view name = attribute_name(key);
    const Node* node = fields.find(name);
    if (node == nullptr) continue;
    if (key != AttributeKey::kDataType) {
      op.attributes.emplace_back(key,
                                 parse_placed_expression(document, *node, fields.what_of(name)));
      continue;
    }
    op.data_type = to_text(document, *node, fields.what_of(name));
    if (op.data_type != "activation" && !find_data_type(op.data_type)) {
      std::vector<std::string> known = data_type_names();
      known.emplace_back("activation");
      fail_at(document, node->position,
              fmt::format("{}: expected one of {}, found '{}'", fields.what_of(name),
                          join_names(known), op.data_type));
    }
  }
  for (const AttributeKey key : op.kind->required) {
    const bool given =
        key == AttributeKey::kDataType
            ? !op.data_type.empty()
            : std::any_of(op.attributes.begin(), op.attributes.end(),
                          [&](const auto& attribute) { return attribute.first == key; });
    if (!given) fields.require(attribute_name(key));
  }
}

void check_name(const Document& document, Position position, const std::string& name) {
  const bool valid = !name.empty() && std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
  });
  if (valid) return;
  fail_at(document, position,
          fmt::format("op name '{}': expected letters, digits and underscores", name));
}

}  // namespace

PlacedExpression parse_placed_expression(const Document& document, const Node& node,
                                         const std::string& what) {
  const std::string text = to_text(document, node, what);
  try {
    if (node.quoted) {
      // A quoted scalar is a text: quote it for the expression reader.
      return {.expression = parse_expression("'" + text + "'"), .node = &node};
    }
    return {.expression = parse_expression(text), .node = &node};
  } catch (const ExpressionError& error) {
    fail_at(document, position_within(document, node, error.offset()),
            fmt::format("{}: {}", what, error.what()));
  }
}

FamilyOp parse_family_op(const Document& document, const Node& item) {
  if (item.kind != NodeKind::kMapping || item.entries.size() != 1) {
    fail_at(document, item.position,
            fmt::format("expected one op, '- name: {{op: kind, in: input}}', found {}",
                        describe(item)));
  }
  const Entry& entry = item.entries[0];
  FamilyOp op{.name = entry.key, .position = entry.key_position};
  check_name(document, entry.key_position, op.name);
  Fields fields(document, entry.value, fmt::format("op '{}'", op.name));
  op.kind = kind_named(document, fields);
  op.inputs = fields.names("in");
  if (op.inputs.size() < op.kind->min_inputs || op.inputs.size() > op.kind->max_inputs) {
    fields.fail_at_key(
        "in", fmt::format("a {} takes {} input{}, found {}", op.kind->name,
                          op.kind->min_inputs == op.kind->max_inputs
                              ? fmt::format("{}", op.kind->min_inputs)
                              : fmt::format("{} to {}", op.kind->min_inputs, op.kind->max_inputs),
                          op.kind->max_inputs == 1 ? "" : "s", op.inputs.size()));
  }
  op.output_names = fields.optional_names("out");
  op.module = fields.optional_text("module").value_or("");
  op.is_logits = fields.optional_boolean("logits").value_or(false);
  if (const Node* condition = fields.find("if")) {
    op.condition = parse_placed_expression(document, *condition, fields.what_of("if"));
  }
  if (const Node* weight = fields.find("weight")) {
    op.shared_weight = parse_shared_weight(document, *weight, fields.what_of("weight"));
  }
  parse_attributes(document, fields, op);
  fields.refuse_unknown();
  return op;
}

void check_op_names(const Document& document, const std::vector<FamilyOp>& ops,
                    std::vector<std::string>& known) {
  const auto is_known = [&known](const std::string& name) {
    return std::find(known.begin(), known.end(), name) != known.end();
  };
  std::vector<std::string> made;
  const auto make = [&](const FamilyOp& op, const std::string& name) {
    if (std::find(made.begin(), made.end(), name) != made.end()) {
      fail_at(document, op.position, fmt::format("op '{}': the name is used twice", name));
    }
    made.push_back(name);
    known.push_back(name);
  };
  for (const FamilyOp& op : ops) {
    for (const std::string& input : op.inputs) {
      if (is_known(input)) continue;
      const bool later = std::any_of(ops.begin(), ops.end(), [&](const FamilyOp& other) {
        return other.name == input;
      });
      fail_at(document, op.position,
              later ? fmt::format("op '{}': it reads '{}' before that is made", op.name, input)
                    : fmt::format("op '{}': it reads '{}', which nothing makes{}", op.name, input,
                                  did_you_mean(input, known)));
    }
    if (op.output_names.empty()) {
      make(op, op.name);
    } else {
      for (const std::string& name : op.output_names) make(op, name);
    }
  }
}

}  // namespace cairn
