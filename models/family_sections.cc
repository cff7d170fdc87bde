#include "models/family_sections.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "graph/error.h"
#include "graph/recipe.h"
#include "models/family_ops.h"
#include "models/family_values.h"

namespace cairn {
namespace {

struct DimSection {
  std::string_view key = {};
  DimType type = DimType::kSize;
};

constexpr std::size_t kMostDims = 1000;
constexpr std::size_t kMostConfigKeys = 16;

constexpr std::array<DimSection, 6> kDimSections = {{{"dims", DimType::kSize},
                                                     {"flags", DimType::kFlag},
                                                     {"rates", DimType::kRate},
                                                     {"factors", DimType::kFactor},
                                                     {"texts", DimType::kText},
                                                     {"derived", DimType::kDerived}}};

// A key of config.json, or a path to a value: "rope_parameters.partial_rotary_factor", "depths[0]",
// "id2label[]".
std::string parse_config_key(const Document& document, const Node& node, const std::string& what) {
  std::string key = to_text(document, node, what);
  std::string_view path = key;
  if (path.size() > 2 && path.ends_with("[]")) path.remove_suffix(2);
  for (std::size_t open = path.find('['); open != std::string::npos; open = path.find('[', open)) {
    const std::size_t close = path.find_first_not_of("0123456789", open + 1);
    const bool is_index =
        open > 0 && close > open + 1 && close < open + 10 && close < path.size() &&
        path[close] == ']' &&
        (close + 1 == path.size() || path[close + 1] == '[' || path[close + 1] == '.');
    if (!is_index) {
      fail_at(document, node.position,
              fmt::format("{}: expected a path such as depths[0], found {}", what, in_quotes(key)));
    }
    open = close;
  }
  return key;
}

struct KeysAndDefault {
  std::vector<std::string> config_keys = {};
  std::optional<PlacedExpression> default_value = {};
  std::optional<PlacedExpression> null_value = {};
  std::int64_t least = 1;
};

// "{key: sliding_window, default: 4096, if_null: 0}", for what a list cannot say.
KeysAndDefault parse_key_mapping(const Document& document, const Node& node,
                                 const std::string& what, DimType type) {
  KeysAndDefault parsed;
  Fields fields(document, node, what);
  const Node& key = fields.require("key");
  if (key.kind != NodeKind::kSequence) {
    parsed.config_keys = {parse_config_key(document, key, what)};
  } else {
    for (const Node& item : to_list(document, key, fields.what_of("key"))) {
      parsed.config_keys.push_back(parse_config_key(document, item, what));
    }
    if (parsed.config_keys.empty()) fields.fail_at_key("key", "expected a key, found none");
  }
  if (const Node* value = fields.find("default")) {
    parsed.default_value = parse_placed_expression(document, *value, fields.what_of("default"));
  }
  if (const Node* value = fields.find("if_null")) {
    parsed.null_value = parse_placed_expression(document, *value, fields.what_of("if_null"));
  }
  if (const Node* value = fields.find("least")) {
    parsed.least = to_integer(document, *value, fields.what_of("least"));
    if (type != DimType::kSize && type != DimType::kFactor) {
      fields.fail_at_key("least", "only a size or a factor has one");
    }
    if (parsed.least < 0) {
      fields.fail_at_key("least", fmt::format("expected zero or more, found {}", parsed.least));
    }
  }
  fields.refuse_unknown();
  return parsed;
}

// "hidden_size" (a key that must be there), or "[key, other_key, default expression]".
KeysAndDefault parse_keys(const Document& document, const Node& node, const std::string& what) {
  if (node.kind != NodeKind::kSequence) {
    return {.config_keys = {parse_config_key(document, node, what)}};
  }
  KeysAndDefault parsed;
  const std::vector<Node>& items = node.items;
  if (items.size() < 2) {
    fail_at(document, node.position,
            what + ": expected [config key, ..., default], found fewer than two items");
  }
  if (items.size() > kMostConfigKeys) {
    fail_at(document, node.position,
            fmt::format("{}: expected at most {} items, found {}", what, kMostConfigKeys,
                        items.size()));
  }
  for (std::size_t i = 0; i + 1 < items.size(); ++i) {
    parsed.config_keys.push_back(parse_config_key(document, items[i], what));
  }
  parsed.default_value = parse_placed_expression(document, items.back(), what);
  return parsed;
}

// What every family knows without a dim of its own.
constexpr std::array<std::string_view, 5> kTakenNames = {"batch", "tokens", "block",
                                                         "expert_imbalance", "expert_capacity"};

// Names of dims that one file gives: a later file's dim replaces an earlier one's, in its place.
class DimNames {
 public:
  void add(const Document& document, const Entry& entry) {
    if (std::find(kTakenNames.begin(), kTakenNames.end(), entry.key) != kTakenNames.end()) {
      fail_at(document, entry.key_position,
              fmt::format("dim '{}': the name is taken: every family has it", entry.key));
    }
    if (!names_.insert(entry.key).second) {
      fail_at(document, entry.key_position,
              fmt::format("dim '{}': the name is used twice", entry.key));
    }
  }

 private:
  Names names_ = {};
};

template <typename Items>
auto find_named(Items& items, const std::string& name) {
  return std::find_if(items.begin(), items.end(),
                      [&](const auto& item) { return item.name == name; });
}

// A dim of one kind does not replace one of the other.
template <typename Items>
void refuse_named(const Document& document, const Entry& entry, const Items& others,
                  std::string_view what) {
  if (find_named(others, entry.key) == others.end()) return;
  fail_at(document, entry.key_position,
          fmt::format("dim '{}': an included section has it among its {}", entry.key, what));
}

// Appends, or replaces the one of the same name.
template <typename Item>
void put(const Document& document, const Entry& entry, Item item, std::vector<Item>& items) {
  const auto same = find_named(items, item.name);
  if (same != items.end()) {
    *same = std::move(item);
    return;
  }
  if (items.size() == kMostDims) {
    fail_at(document, entry.key_position,
            fmt::format("expected at most {} dims, found more", kMostDims));
  }
  items.push_back(std::move(item));
}

const DimSection* section_named(std::string_view key) {
  for (const DimSection& section : kDimSections) {
    if (section.key == key) return &section;
  }
  return nullptr;
}

KeysAndDefault parse_value(const Document& document, const Node& node, DimType type,
                           const std::string& what) {
  if (type == DimType::kDerived) {
    return {.default_value = parse_placed_expression(document, node, what)};
  }
  if (node.kind == NodeKind::kMapping) return parse_key_mapping(document, node, what, type);
  return parse_keys(document, node, what);
}

// The sections in the order of the file: a default may use the dims before it.
void parse_dims(const Document& document, Fields& fields, DimNames& names, Family& family) {
  for (const DimSection& section : kDimSections) fields.find(section.key);  // known keys
  for (const Entry& root_entry : document.root.entries) {
    const DimSection* const section = section_named(root_entry.key);
    if (section == nullptr || root_entry.value.kind == NodeKind::kNull) continue;
    const Fields dims(document, root_entry.value, std::string(section->key));
    for (const Entry& entry : root_entry.value.entries) {
      names.add(document, entry);
      refuse_named(document, entry, family.per_layer, "per_layer dims");
      const std::string what = fmt::format("dim '{}'", entry.key);
      KeysAndDefault keys = parse_value(document, entry.value, section->type, what);
      put<FamilyDim>(document, entry,
                     {.name = entry.key,
                      .type = section->type,
                      .config_keys = std::move(keys.config_keys),
                      .default_value = std::move(keys.default_value),
                      .null_value = std::move(keys.null_value),
                      .least = keys.least},
                     family.dims);
    }
  }
}

// "[layer_types, default]", "{members: mlp_only_layers}" or "{key: layer_types, among: [a, b],
// default: expression}".
PerLayerDim parse_per_layer_dim(const Document& document, const Entry& entry) {
  const std::string what = fmt::format("per_layer dim '{}'", entry.key);
  PerLayerDim dim{.name = entry.key};
  if (entry.value.kind != NodeKind::kMapping) {
    KeysAndDefault keys = parse_keys(document, entry.value, what);
    dim.config_keys = std::move(keys.config_keys);
    dim.default_value = std::move(keys.default_value);
    return dim;
  }
  Fields fields(document, entry.value, what);
  if (fields.find("members") != nullptr) {
    dim.is_membership = true;
    dim.config_keys = {
        parse_config_key(document, fields.require("members"), fields.what_of("members"))};
  } else {
    dim.config_keys = {parse_config_key(document, fields.require("key"), fields.what_of("key"))};
    dim.allowed = fields.optional_names("among");
    if (const Node* node = fields.find("default")) {
      dim.default_value = parse_placed_expression(document, *node, fields.what_of("default"));
    }
  }
  fields.refuse_unknown();
  return dim;
}

void parse_per_layer(const Document& document, Fields& fields, DimNames& names, Family& family) {
  const Node* node = fields.find("per_layer");
  if (node == nullptr) return;
  const Fields dims(document, *node, "per_layer");
  for (const Entry& entry : node->entries) {
    names.add(document, entry);
    refuse_named(document, entry, family.dims, "dims");
    put(document, entry, parse_per_layer_dim(document, entry), family.per_layer);
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
  const Node* const node = fields.find("inputs");
  if (node == nullptr) return;
  const Fields inputs(document, *node, "inputs");
  for (const Entry& entry : node->entries) {
    Fields input(document, entry.value, fmt::format("input '{}'", entry.key));
    FamilyInput parsed{.name = entry.key,
                       .document = &document,
                       .position = entry.key_position,
                       .data_type = input.text("dtype")};
    check_length(document, entry.key_position, fmt::format("input {}", in_quotes(entry.key)),
                 entry.key);
    const std::vector<std::string> known = type_names_of_files();
    if (std::find(known.begin(), known.end(), parsed.data_type) == known.end()) {
      input.fail_at_key("dtype",
                        fmt::format("expected one of {}, found '{}'{}", join_names(known),
                                    parsed.data_type, did_you_mean(parsed.data_type, known)));
    }
    for (const Node& extent : input.list("shape")) {
      parsed.shape.push_back(parse_placed_expression(document, extent, input.what_of("shape")));
    }
    if (parsed.shape.empty()) input.fail_at_key("shape", "expected at least one dim, found none");
    parsed.is_learned = input.optional_boolean("learned").value_or(false);
    input.refuse_unknown();
    put(document, entry, std::move(parsed), family.inputs);
  }
}

// The option that chooses: stated, or of the kind's own name.
std::string parse_option(const Document& document, const Entry& entry, const std::string& what) {
  const std::vector<std::string> known(kImplementationOptions.begin(),
                                       kImplementationOptions.end());
  const auto is_known = [&](const std::string& name) {
    return std::find(known.begin(), known.end(), name) != known.end();
  };
  for (const Entry& given : entry.value.entries) {
    if (given.key != "option") continue;
    std::string option = to_text(document, given.value, what);
    if (is_known(option)) return option;
    fail_at(document, given.value.position,
            fmt::format("{}: key 'option': expected one of {}, found {}{}", what, join_names(known),
                        in_quotes(option), did_you_mean(option, known)));
  }
  return is_known(entry.key) ? entry.key : "";
}

// "rms_norm: rms_norm_hf", or "attention: {default: sdpa, flash: kernel, sdpa: a_layer_file}".
// Whether there are such kinds, composites and layers is not known yet.
void parse_implementations(const Document& document, Fields& fields, Family& family) {
  const Node* node = fields.find("implementations");
  if (node == nullptr) return;
  const Fields implementations(document, *node, "implementations");
  for (const Entry& entry : node->entries) {
    const std::string what = fmt::format("implementation of '{}'", entry.key);
    Implementation& implementation = family.implementations[entry.key];
    implementation = {.document = &document,
                      .key_position = entry.key_position,
                      .position = entry.value.position};
    if (entry.value.kind != NodeKind::kMapping) {
      const std::string layer = to_text(document, entry.value, what);
      implementation.default_choice = layer;
      implementation.layer_of_choice = {{layer, layer == "kernel" ? "" : layer}};
      continue;
    }
    implementation.option = parse_option(document, entry, what);
    for (const Entry& choice : entry.value.entries) {
      if (choice.key == "option") continue;
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

void parse_token_limit(Fields& fields, Family& family) {
  if (fields.find("token_limit") == nullptr) return;
  family.token_limit_dim = fields.text("token_limit");
  std::vector<std::string> sizes;
  for (const FamilyDim& dim : family.dims) {
    if (dim.type == DimType::kSize) sizes.push_back(dim.name);
  }
  if (std::find(sizes.begin(), sizes.end(), family.token_limit_dim) != sizes.end()) return;
  fields.fail_at_key("token_limit", fmt::format("there is no dim {} among the sizes{}",
                                                in_quotes(family.token_limit_dim),
                                                did_you_mean(family.token_limit_dim, sizes)));
}

}  // namespace

void parse_sections(const Document& document, Fields& fields, Family& family) {
  DimNames names;
  parse_dims(document, fields, names, family);
  parse_per_layer(document, fields, names, family);
  for (FamilyRequirement& requirement : parse_requirements(document, fields)) {
    family.requirements.push_back(std::move(requirement));
  }
  parse_notes(document, fields, family);
  parse_inputs(document, fields, family);
  parse_implementations(document, fields, family);
  parse_token_limit(fields, family);
}

}  // namespace cairn
