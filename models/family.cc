#include "models/family.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "graph/error.h"
#include "models/family_ops.h"
#include "models/fields.h"

namespace cairn {
namespace {

struct DimSection {
  std::string_view key = {};
  DimType type = DimType::kSize;
};

constexpr std::size_t kMostDims = 1000;
constexpr std::size_t kMostConfigKeys = 16;

constexpr std::array<DimSection, 4> kDimSections = {{{"dims", DimType::kSize},
                                                     {"flags", DimType::kFlag},
                                                     {"rates", DimType::kRate},
                                                     {"texts", DimType::kText}}};

// "hidden: hidden_size" (a key that must be there), or "[key, other_key, default expression]".
FamilyDim parse_dim(const Document& document, const Entry& entry, DimType type) {
  FamilyDim dim{.name = entry.key, .type = type};
  const std::string what = fmt::format("dim '{}'", entry.key);
  if (entry.value.kind != NodeKind::kSequence) {
    dim.config_keys = {to_text(document, entry.value, what)};
    return dim;
  }
  const std::vector<Node>& items = entry.value.items;
  if (items.size() < 2) {
    fail_at(document, entry.value.position,
            what + ": expected [config key, ..., default], found fewer than two items");
  }
  if (items.size() > kMostConfigKeys) {
    fail_at(document, entry.value.position,
            fmt::format("{}: expected at most {} items, found {}", what, kMostConfigKeys,
                        items.size()));
  }
  for (std::size_t i = 0; i + 1 < items.size(); ++i) {
    dim.config_keys.push_back(to_text(document, items[i], what));
  }
  dim.default_value = parse_placed_expression(document, items.back(), what);
  return dim;
}

const DimSection* section_named(std::string_view key) {
  for (const DimSection& section : kDimSections) {
    if (section.key == key) return &section;
  }
  return nullptr;
}

// The sections in the order of the file: a default may use the dims before it.
void parse_dims(const Document& document, Fields& fields, Family& family) {
  Names names;
  for (const DimSection& section : kDimSections) fields.find(section.key);  // known keys
  for (const Entry& root_entry : document.root.entries) {
    const DimSection* const section = section_named(root_entry.key);
    if (section == nullptr || root_entry.value.kind == NodeKind::kNull) continue;
    const Node* const node = &root_entry.value;
    const Fields dims(document, *node, std::string(section->key));
    for (const Entry& entry : node->entries) {
      if (entry.key == "batch" || entry.key == "tokens" || entry.key == "block") {
        fail_at(document, entry.key_position,
                fmt::format("dim '{}': the name is taken: every family has it", entry.key));
      }
      if (!names.insert(entry.key).second) {
        fail_at(document, entry.key_position,
                fmt::format("dim '{}': the name is used twice", entry.key));
      }
      if (family.dims.size() == kMostDims) {
        fail_at(document, entry.key_position,
                fmt::format("expected at most {} dims, found more", kMostDims));
      }
      family.dims.push_back(parse_dim(document, entry, section->type));
    }
  }
}

void parse_requirements(const Document& document, Fields& fields, Family& family) {
  const Node* node = fields.find("require");
  if (node == nullptr) return;
  for (const Node& item : to_list(document, *node, fields.what_of("require"))) {
    Fields requirement(document, item, "a requirement");
    family.requirements.push_back(
        {.condition = parse_placed_expression(document, requirement.require("that"),
                                              requirement.what_of("that")),
         .otherwise = requirement.text("else")});
    requirement.refuse_unknown();
  }
}

void parse_notes(const Document& document, Fields& fields, Family& family) {
  const Node* node = fields.find("notes");
  if (node == nullptr) return;
  for (const Node& item : to_list(document, *node, fields.what_of("notes"))) {
    Fields note(document, item, "a note");
    family.notes.push_back(
        {.condition = parse_placed_expression(document, note.require("when"), note.what_of("when")),
         .text = note.text("say")});
    note.refuse_unknown();
  }
}

void parse_inputs(const Document& document, Fields& fields, Family& family) {
  const Node& node = fields.require("inputs");
  const Fields inputs(document, node, "inputs");
  for (const Entry& entry : node.entries) {
    Fields input(document, entry.value, fmt::format("input '{}'", entry.key));
    FamilyInput parsed{
        .name = entry.key, .position = entry.key_position, .data_type = input.text("dtype")};
    check_length(document, entry.key_position, fmt::format("input {}", in_quotes(entry.key)),
                 entry.key);
    if (parsed.data_type != "activation" && !find_data_type(parsed.data_type)) {
      std::vector<std::string> known = data_type_names();
      known.emplace_back("activation");
      input.fail_at_key("dtype",
                        fmt::format("expected one of {}, found '{}'{}", join_names(known),
                                    parsed.data_type, did_you_mean(parsed.data_type, known)));
    }
    for (const Node& extent : input.list("shape")) {
      parsed.shape.push_back(parse_placed_expression(document, extent, input.what_of("shape")));
    }
    if (parsed.shape.empty()) input.fail_at_key("shape", "expected at least one dim, found none");
    input.refuse_unknown();
    family.inputs.push_back(std::move(parsed));
  }
}

// "rms_norm: rms_norm_hf", or "attention: {default: sdpa, flash: kernel, sdpa: a_layer_file}".
void parse_implementations(const Document& document, Fields& fields, Family& family) {
  const Node* node = fields.find("implementations");
  if (node == nullptr) return;
  const Fields implementations(document, *node, "implementations");
  for (const Entry& entry : node->entries) {
    const std::string what = fmt::format("implementation of '{}'", entry.key);
    if (find_op_kind(entry.key) == nullptr) {
      fail_at(document, entry.key_position,
              fmt::format("{}: unknown op kind{}", what, did_you_mean(entry.key, op_kind_names())));
    }
    Implementation& implementation = family.implementations[entry.key];
    if (entry.value.kind != NodeKind::kMapping) {
      const std::string layer = to_text(document, entry.value, what);
      implementation = {.default_choice = layer,
                        .layer_of_choice = {{layer, layer == "kernel" ? "" : layer}},
                        .position = entry.value.position};
      continue;
    }
    implementation.position = entry.value.position;
    for (const Entry& choice : entry.value.entries) {
      const std::string value = to_text(document, choice.value, what);
      if (choice.key == "default") {
        implementation.default_choice = value;
      } else {
        implementation.layer_of_choice[choice.key] = value == "kernel" ? "" : value;
      }
    }
    if (implementation.default_choice.empty()) {
      fail_at(document, entry.value.position, what + ": missing key 'default'");
    }
    if (!implementation.layer_of_choice.contains(implementation.default_choice)) {
      fail_at(document, entry.value.position,
              fmt::format("{}: its default '{}' is not among its choices", what,
                          implementation.default_choice));
    }
  }
}

FamilyItem parse_block(const Document& document, const Node& item) {
  Fields fields(document, item, "a repeated block");
  FamilyItem block{.position = item.position};
  block.count =
      parse_placed_expression(document, fields.require("repeat"), fields.what_of("repeat"));
  block.block_name = fields.optional_text("name").value_or("layers");
  block.module = fields.optional_text("module").value_or("");
  check_length(document, item.position, fields.what_of("name"), block.block_name);
  check_length(document, item.position, fields.what_of("module"), block.module);
  const Node& carry = fields.require("carry");
  if (carry.kind != NodeKind::kMapping || carry.entries.size() != 1) {
    fail_at(document, carry.position,
            "a repeated block: expected 'carry: {x: first}', found " + describe(carry));
  }
  block.carry_name = carry.entries[0].key;
  block.carry_from = to_text(document, carry.entries[0].value, fields.what_of("carry"));
  for (const Node& op : fields.list("ops")) {
    block.block_ops.push_back(parse_family_op(document, op));
  }
  fields.refuse_unknown();
  if (block.block_ops.empty()) fail_at(document, item.position, "a repeated block has no ops");
  return block;
}

std::vector<FamilyItem> read_items(const Document& document, Fields& fields) {
  std::vector<FamilyItem> items;
  std::size_t op_count = 0;
  for (const Node& item : fields.list("ops")) {
    const bool is_block =
        item.kind == NodeKind::kMapping && !item.entries.empty() && item.entries[0].key == "repeat";
    if (is_block) {
      items.push_back(parse_block(document, item));
    } else {
      items.push_back({.op = parse_family_op(document, item)});
    }
    op_count += std::max<std::size_t>(1, items.back().block_ops.size());
    if (op_count > kMostFamilyOps) {
      fail_at(document, item.position,
              fmt::format("expected at most {} ops in a family, found more", kMostFamilyOps));
    }
  }
  return items;
}

// Inside a block its own names come first, and are forgotten behind it, but for what it carries.
void check_block_names(const Document& document, const FamilyItem& block, Names& known) {
  if (!known.contains(block.carry_from)) {
    fail_at(
        document, block.position,
        fmt::format("a repeated block: it carries '{}', which nothing makes{}", block.carry_from,
                    did_you_mean(block.carry_from, {known.begin(), known.end()})));
  }
  const bool is_new = known.insert(block.carry_name).second;
  const std::vector<std::string> inside = check_op_names(document, block.block_ops, known);
  const bool hands_on =
      std::any_of(block.block_ops.begin(), block.block_ops.end(), [&](const FamilyOp& op) {
        const std::vector<std::string> made = made_names(op);
        return std::find(made.begin(), made.end(), block.carry_name) != made.end();
      });
  if (!hands_on) {
    fail_at(document, block.position,
            fmt::format("a repeated block: no op of it makes '{}' for the next", block.carry_name));
  }
  for (const std::string& name : inside) known.erase(name);
  if (is_new) known.insert(block.carry_name);
}

void parse_items(const Document& document, Fields& fields, Family& family) {
  family.items = read_items(document, fields);
  Names known;
  for (const FamilyInput& input : family.inputs) known.insert(input.name);
  Names later;
  for (const FamilyItem& item : family.items) {
    if (item.block_ops.empty()) {
      for (std::string& name : made_names(item.op)) later.insert(std::move(name));
    } else {
      later.insert(item.carry_name);
    }
  }
  Names made = known;
  for (const FamilyItem& item : family.items) {
    if (!item.block_ops.empty()) {
      check_block_names(document, item, known);
      continue;
    }
    check_reads(document, item.op, known, later);
    for (const std::string& name : made_names(item.op)) {
      if (!made.insert(name).second) {
        fail_at(document, item.op.position, fmt::format("op '{}': the name is used twice", name));
      }
      known.insert(name);
    }
  }
  if (family.items.empty()) fields.fail_at_key("ops", "expected ops, found none");
  const FamilyItem& last = family.items.back();
  if (!last.block_ops.empty()) {
    fail_at(document, last.position,
            "the last op makes the loss: expected an op, found a repeated block");
  }
  if (!last.op.output_names.empty()) {
    fail_at(document, last.op.position,
            fmt::format("op '{}': the last op makes the loss: expected one output, without 'out'",
                        last.op.name));
  }
}

}  // namespace

Family parse_family(Document document) {
  Family family;
  family.document = std::make_shared<const Document>(std::move(document));
  const Document& source = *family.document;
  Fields fields(source, source.root, "a family");
  family.name = fields.text("family");
  family.title = fields.optional_text("title").value_or(family.name);
  family.model_types = fields.optional_names("model_types");
  parse_dims(source, fields, family);
  parse_requirements(source, fields, family);
  parse_notes(source, fields, family);
  family.token_limit_dim = fields.optional_text("token_limit").value_or("");
  const bool limit_known =
      family.token_limit_dim.empty() ||
      std::any_of(family.dims.begin(), family.dims.end(), [&](const FamilyDim& dim) {
        return dim.name == family.token_limit_dim && dim.type == DimType::kSize;
      });
  if (!limit_known) {
    std::vector<std::string> sizes;
    for (const FamilyDim& dim : family.dims) {
      if (dim.type == DimType::kSize) sizes.push_back(dim.name);
    }
    fields.fail_at_key("token_limit", fmt::format("there is no dim {} among the sizes{}",
                                                  in_quotes(family.token_limit_dim),
                                                  did_you_mean(family.token_limit_dim, sizes)));
  }
  parse_inputs(source, fields, family);
  parse_implementations(source, fields, family);
  parse_items(source, fields, family);
  fields.refuse_unknown();
  return family;
}

Layer parse_layer(Document document) {
  Layer layer;
  layer.document = std::make_shared<const Document>(std::move(document));
  const Document& source = *layer.document;
  Fields fields(source, source.root, "a layer");
  layer.name = fields.text("layer");
  layer.of_kind = fields.text("of");
  if (find_op_kind(layer.of_kind) == nullptr) {
    fields.fail_at_key("of", fmt::format("unknown op kind '{}'{}", layer.of_kind,
                                         did_you_mean(layer.of_kind, op_kind_names())));
  }
  layer.inputs = fields.names("inputs");
  Names known(layer.inputs.begin(), layer.inputs.end());
  for (const Node& op : fields.list("ops")) {
    if (layer.ops.size() == kMostFamilyOps) {
      fail_at(source, op.position,
              fmt::format("expected at most {} ops in a layer, found more", kMostFamilyOps));
    }
    layer.ops.push_back(parse_family_op(source, op));
  }
  if (layer.ops.empty()) fields.fail_at_key("ops", "expected ops, found none");
  if (!layer.ops.back().output_names.empty()) {
    fail_at(source, layer.ops.back().position,
            fmt::format("op '{}': the last op makes the layer's output: expected one, without "
                        "'out'",
                        layer.ops.back().name));
  }
  check_op_names(source, layer.ops, known);
  fields.refuse_unknown();
  return layer;
}

std::vector<std::string> family_model_types(const Document& document) {
  Fields fields(document, document.root, "a family");
  return fields.optional_names("model_types");
}

}  // namespace cairn
