#include "models/per_layer.h"

#include <fmt/format.h>

#include <algorithm>

#include "graph/error.h"
#include "models/family_values.h"
#include "models/fields.h"

namespace cairn {
namespace {

// 12, true (which is 1) or a text.
Value item_value(const Document& document, const Node& item, const std::string& what) {
  const std::string text = to_text(document, item, what);
  if (item.quoted || text.empty()) return text_value(text);
  if (text == "true" || text == "false") return integer_value(text == "true" ? 1 : 0);
  const bool is_number = text[0] == '-' || (text[0] >= '0' && text[0] <= '9');
  return is_number ? integer_value(to_integer(document, item, what)) : text_value(text);
}

void check_allowed(const PerLayerDim& dim, const Document& document, const Node& item,
                   const Value& value, const std::string& what) {
  if (dim.allowed.empty()) return;
  const bool is_allowed =
      value.kind == ValueKind::kText &&
      std::find(dim.allowed.begin(), dim.allowed.end(), value.text) != dim.allowed.end();
  if (is_allowed) return;
  fail_at(document, item.position,
          fmt::format("{}: expected one of {}, found {}", what, join_names(dim.allowed),
                      in_quotes(item.scalar)));
}

}  // namespace

std::vector<PerLayerValues> resolve_per_layer(const Family& family,
                                              const std::vector<DimSource>& sources) {
  std::vector<PerLayerValues> resolved;
  const ConfigIndex index(sources);
  for (const PerLayerDim& dim : family.per_layer) {
    PerLayerValues values{.dim = &dim, .found = index.find(dim.name, dim.config_keys)};
    if (values.found.node != nullptr) {
      const Document& document = *values.found.source->document;
      const std::string what = fmt::format("key '{}'", values.found.key);
      for (const Node& item : to_list(document, *values.found.node, what)) {
        values.values.push_back(item_value(document, item, what));
        check_allowed(dim, document, item, values.values.back(), what);
      }
    } else if (!dim.is_membership && !dim.default_value) {
      index.fail_missing(dim.name, dim.config_keys, family.name, "");
    }
    resolved.push_back(std::move(values));
  }
  return resolved;
}

DimOrigin origin_of(const PerLayerValues& values) {
  return values.found.node == nullptr ? DimOrigin::kDefault : DimOrigin::kFile;
}

std::string origin_text_of(const PerLayerValues& values) {
  if (values.found.node != nullptr) return values.found.key;
  return values.dim->is_membership ? "no layer" : values.dim->default_value->expression.text;
}

Value value_in_block(const PerLayerValues& values, std::int64_t block, const Scope& scope) {
  if (values.dim->is_membership) {
    const bool is_member = std::find(values.values.begin(), values.values.end(),
                                     integer_value(block)) != values.values.end();
    return integer_value(is_member ? 1 : 0);
  }
  if (values.found.node == nullptr) return evaluated(*values.dim->default_value, scope);
  if (static_cast<std::size_t>(block) < values.values.size()) {
    return values.values[static_cast<std::size_t>(block)];
  }
  fail_at(*values.found.source->document, values.found.node->position,
          fmt::format("key '{}': expected a value for each layer, found {} for layer {}",
                      values.found.key, values.values.size(), block));
}

}  // namespace cairn
