#include "models/family_ops.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "graph/data_type.h"
#include "graph/error.h"
#include "models/family_values.h"
#include "models/fields.h"
#include "models/layer_use.h"

namespace cairn {
namespace {

constexpr std::array<std::string_view, 16> kOpKeys = {
    "op",         "in",       "out",  "if",   "weight",  "logits", "cap",   "module",
    "held_until", "autocast", "base", "bare", "weights", "each",   "fused", "input_embeddings"};

// A kind, or what must be the name of a composite layer: whether there is one is not known yet.
void parse_kind(const Document& document, Fields& fields, FamilyOp& op) {
  const Node& node = fields.require("op");
  const std::string name = to_text(document, node, fields.what_of("op"));
  op.kind_position = node.position;
  op.kind = find_op_kind(name);
  if (op.kind == nullptr) {
    op.layer_name = name;
  } else if (op.kind->derive == nullptr) {
    fail_at(document, node.position,
            fmt::format("{}: a {} op states its bytes, which only a plain graph can",
                        fields.what_of("op"), name));
  }
}

void check_input_count(const Fields& fields, const FamilyOp& op) {
  const OpKindInfo& kind = *op.kind;
  if (op.inputs.size() >= kind.min_inputs && op.inputs.size() <= kind.max_inputs) return;
  const std::string expected = kind.min_inputs == kind.max_inputs
                                   ? fmt::format("{}", kind.min_inputs)
                                   : fmt::format("{} to {}", kind.min_inputs, kind.max_inputs);
  fields.fail_at_key("in", fmt::format("a {} takes {} input{}, found {}", kind.name, expected,
                                       kind.max_inputs == 1 ? "" : "s", op.inputs.size()));
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

// A type's name, or "{of: x}", the type of what the name x stands for.
void parse_data_type(const Document& document, const Node& node, const std::string& what,
                     FamilyOp& op) {
  if (node.kind == NodeKind::kMapping) {
    Fields fields(document, node, what);
    op.type_of = fields.text("of");
    fields.refuse_unknown();
    return;
  }
  op.data_type = to_text(document, node, what);
  const std::vector<std::string> known = type_names_of_files();
  if (std::find(known.begin(), known.end(), op.data_type) != known.end()) return;
  fail_at(document, node.position,
          fmt::format("{}: expected one of {}, found '{}'", what, join_names(known), op.data_type));
}

void parse_attributes(const Document& document, Fields& fields, FamilyOp& op) {
  for (const AttributeKey key : op.kind->attributes) {
    const std::string_view name = attribute_name(key);
    const Node* node = fields.find(name);
    if (node == nullptr) continue;
    const std::string what = fields.what_of(name);
    if (key == AttributeKey::kDataType) {
      parse_data_type(document, *node, what, op);
    } else if (key == AttributeKey::kWidths) {
      for (const Node& width : to_list(document, *node, what)) {
        op.widths.push_back(parse_placed_expression(document, width, what));
      }
    } else {
      op.attributes.emplace_back(key, parse_placed_expression(document, *node, what));
    }
  }
  for (const AttributeKey key : op.kind->required) fields.require(attribute_name(key));
}

// What is no key of every op is an attribute of the composite.
void parse_layer_attributes(const Document& document, const Node& node, Fields& fields,
                            FamilyOp& op) {
  for (const Entry& entry : node.entries) {
    if (is_op_key(entry.key) || fields.find(entry.key) == nullptr) continue;
    op.layer_attributes.emplace_back(
        entry.key, parse_placed_expression(document, entry.value, fields.what_of(entry.key)));
  }
}

// "weights: adapter": what the op makes parameters of.
void parse_weights(Fields& fields, FamilyOp& op) {
  const std::optional<std::string> weights = fields.optional_text("weights");
  if (!weights) return;
  if (*weights != kAdapterType) {
    fields.fail_at_key("weights",
                       fmt::format("expected {}, found {}", kAdapterType, in_quotes(*weights)));
  }
  if (op.kind == nullptr || op.kind->parameters == nullptr) {
    fields.fail_at_key("weights", fmt::format("a {} has no weights",
                                              op.kind == nullptr ? op.layer_name : op.kind->name));
  }
  op.has_adapter_weights = true;
}

bool is_name(std::string_view name) {
  return !name.empty() && std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
  });
}

void check_name(const Document& document, Position position, const std::string& name) {
  if (!is_name(name)) {
    fail_at(document, position,
            fmt::format("op name {}: expected letters, digits and underscores", in_quotes(name)));
  }
  check_length(document, position, "op name " + in_quotes(name), name);
}

// "fused: {query: q_width, key: kv_width}": names that an adapter's layer sees beside the
// attributes of the linear layer and values of the recipe.
void parse_fused(const Document& document, Fields& fields, FamilyOp& op) {
  const Node* const node = fields.find("fused");
  if (node == nullptr) return;
  if (op.kind == nullptr || op.kind->name != "linear" || op.is_bare) {
    fields.fail_at_key("fused", "expected a linear layer, which is several in one");
  }
  const std::string what = fields.what_of("fused");
  const Fields parts(document, *node, what);
  for (const Entry& entry : node->entries) {
    const std::string part = fmt::format("{}: {}", what, in_quotes(entry.key));
    if (!is_name(entry.key)) {
      fail_at(document, entry.key_position, part + ": expected letters, digits and underscores");
    }
    check_length(document, entry.key_position, part, entry.key);
    const std::optional<AttributeKey> attribute = find_attribute(entry.key);
    const std::vector<AttributeKey>& taken = op.kind->attributes;
    const bool is_attribute =
        attribute && std::find(taken.begin(), taken.end(), *attribute) != taken.end();
    if (is_attribute || is_recipe_value(entry.key)) {
      fail_at(document, entry.key_position, part + ": the name is taken");
    }
    op.fused.emplace_back(entry.key, parse_placed_expression(document, entry.value, part));
  }
  if (op.fused.size() < 2) fields.fail_at_key("fused", "expected two parts or more");
}

}  // namespace

bool is_op_key(std::string_view key) {
  return std::find(kOpKeys.begin(), kOpKeys.end(), key) != kOpKeys.end();
}

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
      return {
          .expression = parse_expression("'" + text + "'"), .document = &document, .node = &node};
    }
    return {.expression = parse_expression(text), .document = &document, .node = &node};
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
  FamilyOp op{.name = entry.key, .document = &document, .position = entry.key_position};
  check_name(document, entry.key_position, op.name);
  Fields fields(document, entry.value, fmt::format("op '{}'", op.name));
  parse_kind(document, fields, op);
  op.inputs = fields.names("in");
  if (op.kind != nullptr) check_input_count(fields, op);
  if (op.inputs.empty()) fields.fail_at_key("in", "expected at least one input, found none");
  op.output_names = fields.optional_names("out");
  for (const std::string& name : op.output_names) {
    check_length(document, op.position, fields.what_of("out"), name);
  }
  op.module = fields.optional_text("module").value_or("");
  check_length(document, op.position, fields.what_of("module"), op.module);
  op.held_until = fields.optional_text("held_until").value_or("");
  op.each = fields.optional_text("each").value_or("");
  op.is_logits = fields.optional_boolean("logits").value_or(false);
  op.is_cap = fields.optional_boolean("cap").value_or(false);
  op.is_base = fields.optional_boolean("base").value_or(false);
  op.is_input_embeddings = fields.optional_boolean("input_embeddings").value_or(false);
  op.is_bare = fields.optional_boolean("bare").value_or(false);
  op.autocast = fields.optional_boolean("autocast").value_or(true);
  if (const Node* condition = fields.find("if")) {
    op.condition = parse_placed_expression(document, *condition, fields.what_of("if"));
    if (op.output_names.size() > 1) {
      fields.fail_at_key("if", "an op with several outputs cannot pass its input through");
    }
  }
  if (const Node* weight = fields.find("weight")) {
    if (op.kind == nullptr || op.kind->parameters == nullptr) {
      fields.fail_at_key("weight", fmt::format("a {} has no weight",
                                               op.kind == nullptr ? op.layer_name : op.kind->name));
    }
    op.shared_weight = parse_shared_weight(document, *weight, fields.what_of("weight"));
  }
  if (op.kind != nullptr) {
    parse_attributes(document, fields, op);
  } else {
    parse_layer_attributes(document, entry.value, fields, op);
  }
  parse_weights(fields, op);
  parse_fused(document, fields, op);
  fields.refuse_unknown();
  return op;
}

void refuse_each(const Document& document, const FamilyOp& op, std::string_view why) {
  if (op.each.empty()) return;
  fail_at(document, op.position, fmt::format("op '{}': key 'each': {}", op.name, why));
}

std::vector<FamilyRequirement> parse_requirements(const Document& document, Fields& fields) {
  std::vector<FamilyRequirement> requirements;
  const Node* node = fields.find("require");
  if (node == nullptr) return requirements;
  for (const Node& item : to_list(document, *node, fields.what_of("require"))) {
    Fields requirement(document, item, "a requirement");
    requirements.push_back({.condition = parse_placed_expression(
                                document, requirement.require("that"), requirement.what_of("that")),
                            .otherwise = requirement.text("else")});
    requirement.refuse_unknown();
  }
  return requirements;
}

std::vector<std::string> made_names(const FamilyOp& op) {
  return op.output_names.empty() ? std::vector<std::string>{op.name} : op.output_names;
}

void refuse_adapter_parts(const Document& document, const FamilyOp& op) {
  const std::string_view part = op.is_base                     ? "base"
                                : op.has_adapter_weights       ? "weights"
                                : op.data_type == kAdapterType ? "dtype"
                                                               : "";
  if (part.empty()) return;
  fail_at(
      document, op.position,
      fmt::format("op '{}': key '{}': an adapter is in a layer of linear with the key 'adapter' "
                  "only",
                  op.name, part));
}

void check_reads(const Document& document, const FamilyOp& op, const Names& known,
                 const Names& later) {
  std::vector<std::string> reads = op.inputs;
  if (!op.type_of.empty()) reads.push_back(op.type_of);
  for (const std::string& input : reads) {
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

void check_scopes(const Document& document, const std::vector<const FamilyOp*>& ops,
                  const std::vector<std::string>& blocks) {
  constexpr std::array<std::string_view, 4> kScopes = {kModuleScope, kBlockScope, kForwardScope,
                                                       kLossScope};
  const auto is_named = [&](const std::string& scope) {
    return !scope.empty() && std::find(kScopes.begin(), kScopes.end(), scope) == kScopes.end();
  };
  for (std::size_t i = 0; i < ops.size(); ++i) {
    if (ops[i] == nullptr || !is_named(ops[i]->held_until)) continue;
    const std::string& scope = ops[i]->held_until;
    std::vector<std::string> later;
    bool is_before = false;
    for (std::size_t other = 0; other < ops.size(); ++other) {
      const std::string& name = ops[other] == nullptr ? blocks[other] : ops[other]->name;
      if (other > i) later.push_back(name);
      is_before = is_before || (other <= i && name == scope);
    }
    if (std::find(later.begin(), later.end(), scope) != later.end()) continue;
    later.insert(later.end(), kScopes.begin(), kScopes.end());
    fail_at(
        document, ops[i]->position,
        fmt::format("op '{}': key 'held_until': expected module, block, forward, loss or an op "
                    "behind it, found {}{}",
                    ops[i]->name, in_quotes(scope),
                    is_before ? ", which does not come behind it" : did_you_mean(scope, later)));
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
  std::vector<const FamilyOp*> in_order;
  for (const FamilyOp& op : ops) in_order.push_back(&op);
  check_scopes(document, in_order);
  for (const FamilyOp& op : ops) {
    check_reads(document, op, known, later);
    for (const std::string& name : made_names(op)) {
      if (!made.insert(name).second) {
        fail_at(document, op.position, fmt::format("op '{}': the name is used twice", name));
      }
      if (known.insert(name).second) added.push_back(name);
    }
    if (!op.is_base) continue;  // whose parameters an adapter may read
    for (const std::string_view parameter : {".weight", ".bias"}) {
      if (known.insert(op.name + std::string(parameter)).second) {
        added.push_back(op.name + std::string(parameter));
      }
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
