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
  if (kind != nullptr) {
    fail_at(document, node.position,
            fmt::format("{}: a {} op states its bytes, which only a plain graph can",
                        fields.what_of("op"), name));
  }
  fail_at(document, node.position,
          fmt::format("{}: unknown op kind {}{}", fields.what_of("op"), in_quotes(name),
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
  if (!valid) {
    fail_at(document, position,
            fmt::format("op name {}: expected letters, digits and underscores", in_quotes(name)));
  }
  check_length(document, position, "op name " + in_quotes(name), name);
}

}  // namespace

PlacedExpression parse_placed_expression(const Document& document, const Node& node,
                                         const std::string& what) {
  const std::string text = to_text(document, node, what);
  if (text.size() > kLongestExpression) {
    fail_at(document, node.position,
            fmt::format("{}: expected an expression of at most {} characters, found {}", what,
                        kLongestExpression, text.size()));
  }
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
  for (const std::string& name : op.output_names) {
    check_length(document, op.position, fields.what_of("out"), name);
  }
  op.module = fields.optional_text("module").value_or("");
  check_length(document, op.position, fields.what_of("module"), op.module);
  op.is_logits = fields.optional_boolean("logits").value_or(false);
  if (const Node* condition = fields.find("if")) {
    op.condition = parse_placed_expression(document, *condition, fields.what_of("if"));
    if (op.output_names.size() > 1) {
      fields.fail_at_key("if", "an op with several outputs cannot pass its input through");
    }
  }
  if (const Node* weight = fields.find("weight")) {
    if (op.kind->parameters == nullptr) {
      fields.fail_at_key("weight", fmt::format("a {} has no weight", op.kind->name));
    }
    op.shared_weight = parse_shared_weight(document, *weight, fields.what_of("weight"));
  }
  parse_attributes(document, fields, op);
  fields.refuse_unknown();
  return op;
}

std::vector<std::string> made_names(const FamilyOp& op) {
  return op.output_names.empty() ? std::vector<std::string>{op.name} : op.output_names;
}

void check_reads(const Document& document, const FamilyOp& op, const Names& known,
                 const Names& later) {
  for (const std::string& input : op.inputs) {
    if (known.contains(input)) continue;
    if (later.contains(input)) {
      fail_at(document, op.position,
              fmt::format("op '{}': it reads '{}' before that is made", op.name, input));
    }
    fail_at(document, op.position,
            fmt::format("op '{}': it reads '{}', which nothing makes{}", op.name, input,
                        did_you_mean(input, {known.begin(), known.end()})));
  }
}

std::vector<std::string> check_op_names(const Document& document, const std::vector<FamilyOp>& ops,
                                        Names& known) {
  Names later;
  for (const FamilyOp& op : ops) {
    for (std::string& name : made_names(op)) later.insert(std::move(name));
  }
  Names made;
  std::vector<std::string> added;
  for (const FamilyOp& op : ops) {
    check_reads(document, op, known, later);
    for (const std::string& name : made_names(op)) {
      if (!made.insert(name).second) {
        fail_at(document, op.position, fmt::format("op '{}': the name is used twice", name));
      }
      if (known.insert(name).second) added.push_back(name);
    }
  }
  return added;
}

void check_length(const Document& document, Position position, const std::string& what,
                  const std::string& name) {
  if (name.size() <= kLongestName) return;
  fail_at(
      document, position,
      fmt::format("{}: expected at most {} characters, found {}", what, kLongestName, name.size()));
}

}  // namespace cairn
