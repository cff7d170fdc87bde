#include <fmt/format.h>

#include <algorithm>

#include "graph/data_type.h"
#include "graph/error.h"
#include "models/family.h"
#include "models/family_ops.h"
#include "models/fields.h"

// Layer files.

namespace cairn {
namespace {

// "{hidden: , bias: false}": without a default, the use has to give it.
void parse_layer_attributes(const Document& document, Fields& fields, Layer& layer) {
  const Node* const node = fields.find("attributes");
  if (node == nullptr) return;
  if (!layer.of_kind.empty()) {
    fields.fail_at_key("attributes",
                       fmt::format("a layer of {} has the attributes of that kind", layer.of_kind));
  }
  const Fields attributes(document, *node, "attributes");
  for (const Entry& entry : node->entries) {
    const std::string what = fmt::format("attribute {}", in_quotes(entry.key));
    check_length(document, entry.key_position, what, entry.key);
    if (entry.key == "block" || is_op_key(entry.key)) {
      fail_at(document, entry.key_position, what + ": the name is taken");
    }
    LayerAttribute attribute{.name = entry.key};
    if (entry.value.kind != NodeKind::kNull) {
      attribute.default_value = parse_placed_expression(document, entry.value, what);
    }
    layer.attributes.push_back(std::move(attribute));
  }
}

// "adapter: fp32": the type of the weights of an adapter beside a linear layer.
void parse_adapter_type(Fields& fields, Layer& layer) {
  layer.adapter_type = fields.optional_text("adapter").value_or("");
  if (layer.adapter_type.empty()) return;
  if (layer.of_kind != "linear") {
    fields.fail_at_key("adapter", "expected a layer of linear, which an adapter is beside");
  }
  std::vector<std::string> known = {"parameter"};
  for (const std::string& name : data_type_names()) {
    if (is_floating(*find_data_type(name))) known.push_back(name);
  }
  if (std::find(known.begin(), known.end(), layer.adapter_type) != known.end()) return;
  fields.fail_at_key("adapter", fmt::format("expected one of {}, found {}{}", join_names(known),
                                            in_quotes(layer.adapter_type),
                                            did_you_mean(layer.adapter_type, known)));
}

void parse_outputs(const Document& document, Fields& fields, const Names& made, Layer& layer) {
  layer.outputs = fields.optional_names("outputs");
  if (layer.outputs.empty()) {
    if (!layer.ops.back().output_names.empty()) {
      fail_at(document, layer.ops.back().position,
              fmt::format("op '{}': the last op makes the layer's output: expected one, without "
                          "'out'",
                          layer.ops.back().name));
    }
    layer.outputs = {layer.ops.back().name};
    return;
  }
  if (!layer.of_kind.empty()) {
    fields.fail_at_key("outputs", "the last op of a layer of an op kind makes its output");
  }
  for (const std::string& name : layer.outputs) {
    if (made.contains(name)) continue;
    fields.fail_at_key("outputs", fmt::format("nothing makes {}{}", in_quotes(name),
                                              did_you_mean(name, {made.begin(), made.end()})));
  }
}

// What spells a kind out runs as it stands: kernels alone. Only there are lists.
void refuse_nested_layers(const Document& document, const Layer& layer) {
  if (layer.of_kind.empty()) {
    for (const FamilyOp& op : layer.ops) {
      refuse_each(document, op, "only layers of an op kind have lists");
    }
    return;
  }
  refuse_each(document, layer.ops.back(), "the last op makes the layer's output, one tensor");
  for (const FamilyOp& op : layer.ops) {
    if (op.kind != nullptr) continue;
    fail_at(document, op.kind_position,
            fmt::format("op '{}': key 'op': unknown op kind {}{}", op.name,
                        in_quotes(op.layer_name), did_you_mean(op.layer_name, op_kind_names())));
  }
}

}  // namespace

Layer parse_layer(Document document) {
  Layer layer;
  layer.document = std::make_shared<const Document>(std::move(document));
  const Document& source = *layer.document;
  Fields fields(source, source.root, "a layer");
  layer.name = fields.text("layer");
  layer.of_kind = fields.optional_text("of").value_or("");
  if (!layer.of_kind.empty() && find_op_kind(layer.of_kind) == nullptr) {
    fields.fail_at_key("of", fmt::format("unknown op kind '{}'{}", layer.of_kind,
                                         did_you_mean(layer.of_kind, op_kind_names())));
  }
  if (layer.of_kind.empty() && find_op_kind(layer.name) != nullptr) {
    fields.fail_at_key("layer", fmt::format("{} is an op kind: what spells it out says 'of: {}'",
                                            in_quotes(layer.name), layer.name));
  }
  layer.inputs = fields.names("inputs");
  Names known;
  for (const std::string& name : layer.inputs) {
    if (known.insert(name).second) continue;
    fields.fail_at_key("inputs", fmt::format("{} is there twice", in_quotes(name)));
  }
  parse_layer_attributes(source, fields, layer);
  layer.takes_head = fields.optional_boolean("takes_head").value_or(false);
  if (layer.takes_head && (layer.of_kind.empty() || layer.inputs.size() != 2)) {
    fields.fail_at_key("takes_head",
                       "expected a layer of a loss, with the head's input and labels");
  }
  parse_adapter_type(fields, layer);
  layer.requirements = parse_requirements(source, fields);
  if (!layer.requirements.empty() && !layer.of_kind.empty()) {
    fields.fail_at_key("require",
                       fmt::format("a layer of {} has no attributes of its own", layer.of_kind));
  }
  layer.is_inline = fields.optional_boolean("inline").value_or(false);
  if (layer.is_inline && !layer.of_kind.empty() && !layer.takes_head) {
    fields.fail_at_key("inline", "what spells an op kind out is a call");
  }
  for (const Node& op : fields.list("ops")) {
    if (layer.ops.size() == kMostFamilyOps) {
      fail_at(source, op.position,
              fmt::format("expected at most {} ops in a layer, found more", kMostFamilyOps));
    }
    layer.ops.push_back(parse_family_op(source, op));
    if (layer.adapter_type.empty()) refuse_adapter_parts(source, layer.ops.back());
  }
  if (layer.ops.empty()) fields.fail_at_key("ops", "expected ops, found none");
  refuse_nested_layers(source, layer);
  check_op_names(source, layer.ops, known);
  parse_outputs(source, fields, known, layer);
  fields.refuse_unknown();
  return layer;
}

}  // namespace cairn
