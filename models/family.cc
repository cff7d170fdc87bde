#include "models/family.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "graph/error.h"
#include "models/family_ops.h"
#include "models/family_sections.h"
#include "models/fields.h"

namespace cairn {
namespace {

constexpr std::string_view kNoLists = "only layers of an op kind have lists";

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
    refuse_each(document, block.block_ops.back(), kNoLists);
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
      refuse_each(document, items.back().op, kNoLists);
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

void check_item_scopes(const Document& document, const Family& family) {
  std::vector<const FamilyOp*> ops;
  std::vector<std::string> blocks;
  for (const FamilyItem& item : family.items) {
    ops.push_back(item.block_ops.empty() ? &item.op : nullptr);
    blocks.push_back(item.block_name);
  }
  check_scopes(document, ops, blocks);
}

void parse_items(const Document& document, Fields& fields, Family& family) {
  family.items = read_items(document, fields);
  for (const FamilyItem& item : family.items) {
    if (item.block_ops.empty()) refuse_adapter_parts(document, item.op);
    for (const FamilyOp& op : item.block_ops) refuse_adapter_parts(document, op);
  }
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
  check_item_scopes(document, family);
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

void include_sections(std::vector<Document> sections, Family& family) {
  for (Document& section : sections) {
    family.included.push_back(std::make_shared<const Document>(std::move(section)));
    const Document& document = *family.included.back();
    Fields fields(document, document.root, "sections");
    fields.text("sections");
    parse_sections(document, fields, family);
    fields.refuse_unknown();
  }
}

Samples parse_samples(Fields& fields) {
  const std::string samples = fields.optional_text("samples").value_or("tokens");
  if (samples == "images") return Samples::kImages;
  if (samples != "tokens") {
    fields.fail_at_key("samples",
                       fmt::format("expected tokens or images, found {}", in_quotes(samples)));
  }
  return Samples::kTokens;
}

// Another library's code for models of certain families is found by these, never by a config.json.
void parse_library(Fields& fields, Family& family) {
  family.library = fields.optional_text("library").value_or("");
  family.stands_for = fields.optional_names("stands_for");
  if (family.stands_for.empty()) return;
  if (family.library.empty()) {
    fields.fail_at_key("stands_for", "expected a key 'library' beside it, whose code this is");
  }
  if (!family.model_types.empty()) {
    fields.fail_at_key("stands_for",
                       "expected no 'model_types' beside it: the families it names read configs");
  }
}

}  // namespace

Family parse_family(Document document, std::vector<Document> sections) {
  Family family;
  family.document = std::make_shared<const Document>(std::move(document));
  const Document& source = *family.document;
  Fields fields(source, source.root, "a family");
  family.name = fields.text("family");
  family.title = fields.optional_text("title").value_or(family.name);
  family.model_types = fields.optional_names("model_types");
  family.architectures = fields.optional_names("architectures");
  family.samples = parse_samples(fields);
  family.adapter_targets = fields.optional_names("lora_targets");
  family.refused_targets = fields.optional_names("lora_refused");
  parse_library(fields, family);
  family.unquantized = fields.optional_names("unquantized");
  family.linear_4bit = fields.optional_text("linear_4bit").value_or("");
  family.quantizes_head = fields.optional_boolean("quantized_head").value_or(false);
  // fp32 is all that a trainer gives them.
  family.has_full_embedding_states =
      fields.optional_one_of("embedding_states", {"fp32"}).has_value();
  fields.optional_names("include");
  include_sections(std::move(sections), family);
  parse_sections(source, fields, family);
  if (family.inputs.empty()) fields.require("inputs");
  parse_items(source, fields, family);
  fields.refuse_unknown();
  return family;
}

std::vector<std::string> family_model_types(const Document& document) {
  Fields fields(document, document.root, "a family");
  return fields.optional_names("model_types");
}

std::vector<std::string> family_includes(const Document& document) {
  Fields fields(document, document.root, "a family");
  return fields.optional_names("include");
}

std::string family_library(const Document& document) {
  Fields fields(document, document.root, "a family");
  return fields.optional_text("library").value_or("");
}

std::vector<std::string> family_stands_for(const Document& document) {
  Fields fields(document, document.root, "a family");
  return fields.optional_names("stands_for");
}

}  // namespace cairn
