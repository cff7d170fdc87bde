#include "models/dims.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <string_view>

#include "graph/checked.h"
#include "graph/error.h"
#include "models/config_index.h"
#include "models/fields.h"

namespace cairn {
namespace {

Value read_value(const FamilyDim& dim, const FoundValue& found) {
  const Document& document = *found.source->document;
  const std::string what = fmt::format("key '{}'", found.key);
  const Node& node = *found.node;
  switch (dim.type) {
    case DimType::kSize: {
      const std::int64_t size = found.counts_entries
                                    ? static_cast<std::int64_t>(node.entries.size())
                                    : to_integer(document, node, what);
      if (size < dim.least) {
        fail_at(document, node.position,
                fmt::format("{}: expected {}, found {}", what,
                            dim.least == 1 ? "a positive integer"
                                           : fmt::format("an integer from {}", dim.least),
                            size));
      }
      return integer_value(size);
    }
    case DimType::kFlag:
      return integer_value(to_boolean(document, node, what) ? 1 : 0);
    case DimType::kRate: {
      const double rate = to_number(document, node, what);
      if (rate < 0.0 || rate >= 1.0) {
        fail_at(document, node.position,
                fmt::format("{}: expected a rate in [0, 1), found {}", what, rate));
      }
      return number_value(rate);
    }
    case DimType::kFactor: {
      const double factor = to_number(document, node, what);
      if (factor <= 0.0) {
        fail_at(document, node.position,
                fmt::format("{}: expected a number above 0, found {}", what, factor));
      }
      return number_value(factor);
    }
    case DimType::kText:
      return text_value(to_text(document, node, what));
  }
  CAIRN_CHECK(false, "unknown dim type");
}

std::int64_t parse_size(const DimOverride& given) {
  std::string digits = given.value;
  std::int64_t scale = 1;
  if (digits.ends_with("k") || digits.ends_with("K")) scale = 1000;
  if (digits.ends_with("M")) scale = 1'000'000;
  if (scale > 1) digits.pop_back();
  std::int64_t size = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), size);
  if (error != std::errc() || end != digits.data() + digits.size() || size < 1) {
    throw InputError(fmt::format("{}: expected a positive integer (248k is 248000), found '{}'",
                                 given.option, given.value));
  }
  return checked_multiply(size, scale, "{}", given.option);
}

Value parse_override(const FamilyDim& dim, const DimOverride& given) {
  switch (dim.type) {
    case DimType::kSize:
      return integer_value(parse_size(given));
    case DimType::kFlag:
      if (given.value == "true") return integer_value(1);
      if (given.value == "false") return integer_value(0);
      throw InputError(
          fmt::format("{}: expected true or false, found '{}'", given.option, given.value));
    case DimType::kRate: {
      double rate = -1;
      const char* end_of_text = given.value.data() + given.value.size();
      const auto [end, error] = std::from_chars(given.value.data(), end_of_text, rate);
      if (error != std::errc() || end != end_of_text || !(rate >= 0.0 && rate < 1.0)) {
        throw InputError(
            fmt::format("{}: expected a rate in [0, 1), found '{}'", given.option, given.value));
      }
      return number_value(rate);
    }
    case DimType::kFactor: {
      double factor = 0;
      const char* const end_of_text = given.value.data() + given.value.size();
      const auto [end, error] = std::from_chars(given.value.data(), end_of_text, factor);
      if (error != std::errc() || end != end_of_text || !(factor > 0.0 && std::isfinite(factor))) {
        throw InputError(
            fmt::format("{}: expected a number above 0, found '{}'", given.option, given.value));
      }
      return number_value(factor);
    }
    case DimType::kText:
      return text_value(given.value);
  }
  CAIRN_CHECK(false, "unknown dim type");
}

void check_override_names(const Family& family, const std::vector<DimOverride>& overrides) {
  std::vector<std::string> names;
  for (const FamilyDim& dim : family.dims) names.push_back(dim.name);
  for (const DimOverride& given : overrides) {
    if (std::find(names.begin(), names.end(), given.name) != names.end()) continue;
    throw InputError(fmt::format("{}: family '{}' has no dim '{}'; it has {}{}", given.option,
                                 family.name, given.name, join_names(names),
                                 did_you_mean(given.name, names)));
  }
}

// Whether a default's value is of the dim's type. A size may be zero: "there is none".
bool is_of_type(const Value& value, DimType type) {
  switch (type) {
    case DimType::kSize:
      return value.kind == ValueKind::kInteger && value.integer >= 0;
    case DimType::kFlag:
      return value.kind == ValueKind::kInteger && (value.integer == 0 || value.integer == 1);
    case DimType::kRate:
      return (value.kind == ValueKind::kInteger && value.integer == 0) ||
             (value.kind == ValueKind::kNumber && value.number >= 0.0 && value.number < 1.0);
    case DimType::kFactor:
      return (value.kind == ValueKind::kInteger && value.integer > 0) ||
             (value.kind == ValueKind::kNumber && value.number > 0.0);
    case DimType::kText:
      return value.kind == ValueKind::kText;
  }
  CAIRN_CHECK(false, "unknown dim type");
}

std::string_view type_text(DimType type) {
  switch (type) {
    case DimType::kSize:
      return "a size (an integer from 0)";
    case DimType::kFlag:
      return "true or false";
    case DimType::kRate:
      return "a rate in [0, 1)";
    case DimType::kFactor:
      return "a number above 0";
    case DimType::kText:
      return "a text in quotes";
  }
  CAIRN_CHECK(false, "unknown dim type");
}

// A default that cannot be computed is a fault of the values it is computed from, where the user
// gave some, else of the family.
Value default_value(const Family& family, const FamilyDim& dim, const PlacedExpression& placed,
                    const Scope& known, const std::vector<DimSource>& sources) {
  const Document& document = *placed.document;
  try {
    Value value = evaluate(placed.expression, known);
    if (is_of_type(value, dim.type)) return value;
    fail_at(document, placed.node->position,
            fmt::format("dim '{}': its default: expected {}, found {}", dim.name,
                        type_text(dim.type), spell(value)));
  } catch (const ExpressionError& error) {
    const std::optional<DimPlace> place = place_of_dims(family, sources, placed.expression.names);
    if (place) {
      fail_at(*place->document, place->position,
              fmt::format("dim '{}' is {}: {}", dim.name, placed.expression.text, error.what()));
    }
    fail_at(document, position_within(document, *placed.node, error.offset()),
            fmt::format("dim '{}': its default: {}", dim.name, error.what()));
  }
}

void refuse_unknown_dims(const Family& family, const DimSource& source) {
  std::vector<std::string> names;
  for (const FamilyDim& dim : family.dims) names.push_back(dim.name);
  for (const PerLayerDim& dim : family.per_layer) names.push_back(dim.name);
  for (const Entry& entry : source.mapping->entries) {
    if (std::find(names.begin(), names.end(), entry.key) != names.end()) continue;
    fail_at(*source.document, entry.key_position,
            fmt::format("family '{}' has no dim '{}'; it has {}{}", family.name, entry.key,
                        join_names(names), did_you_mean(entry.key, names)));
  }
}

}  // namespace

std::optional<DimPlace> place_of_dims(const Family& family, const std::vector<DimSource>& sources,
                                      const std::vector<std::string>& names) {
  const ConfigIndex index(sources);
  std::optional<DimPlace> place;
  for (const std::string& name : names) {
    for (const FamilyDim& dim : family.dims) {
      if (dim.name != name) continue;
      const FoundValue found = index.find(dim.name, dim.config_keys);
      if (found.node == nullptr) continue;
      place = {.document = found.source->document, .position = found.node->position};
    }
  }
  return place;
}

std::vector<ResolvedDim> resolve_dims(const Family& family, const std::vector<DimSource>& sources,
                                      const std::vector<DimOverride>& overrides) {
  check_override_names(family, overrides);
  for (const DimSource& source : sources) {
    if (source.by_dim_name) refuse_unknown_dims(family, source);
  }
  std::vector<ResolvedDim> dims;
  const ConfigIndex index(sources);
  Scope known;
  for (const FamilyDim& dim : family.dims) {
    ResolvedDim resolved{.name = dim.name, .type = dim.type};
    const auto given = std::find_if(overrides.begin(), overrides.end(),
                                    [&](const DimOverride& o) { return o.name == dim.name; });
    const FoundValue found = index.find(dim.name, dim.config_keys);
    if (given != overrides.end()) {
      resolved.value = parse_override(dim, *given);
      resolved.origin = DimOrigin::kOption;
      resolved.origin_text = given->option;
    } else if (found.node != nullptr) {
      resolved.value = read_value(dim, found);
      resolved.origin = DimOrigin::kFile;
      resolved.origin_text = found.key;
    } else if (dim.null_value && index.is_null(dim.name, dim.config_keys)) {
      resolved.value = default_value(family, dim, *dim.null_value, known, sources);
      resolved.origin = DimOrigin::kFile;
      resolved.origin_text = "null";
    } else if (dim.default_value) {
      resolved.value = default_value(family, dim, *dim.default_value, known, sources);
      resolved.origin = DimOrigin::kDefault;
      resolved.origin_text = dim.default_value->expression.text;
    } else {
      index.fail_missing(dim.name, dim.config_keys, family.name);
    }
    known.values[dim.name] = resolved.value;
    dims.push_back(std::move(resolved));
  }
  return dims;
}

}  // namespace cairn
