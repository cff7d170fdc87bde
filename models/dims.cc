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
      const std::int64_t size =
          found.counts_entries ? static_cast<std::int64_t>(node.entries.size() + node.items.size())
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
      if (factor < 0.0 || (factor == 0.0 && dim.least > 0)) {
        fail_at(document, node.position,
                fmt::format("{}: expected a number {} 0, found {}", what,
                            dim.least > 0 ? "above" : "from", factor));
      }
      return number_value(factor);
    }
    case DimType::kText:
      return text_value(to_text(document, node, what));
    case DimType::kDerived:
      break;  // no file gives it
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
    case DimType::kDerived:
      break;  // no option gives it
  }
  CAIRN_CHECK(false, "unknown dim type");
}

// Those that a file or an option can give.
std::vector<std::string> given_dims(const Family& family) {
  std::vector<std::string> names;
  for (const FamilyDim& dim : family.dims) {
    if (dim.type != DimType::kDerived) names.push_back(dim.name);
  }
  return names;
}

void check_override_names(const Family& family, const std::vector<DimOverride>& overrides) {
  const std::vector<std::string> names = given_dims(family);
  for (const DimOverride& given : overrides) {
    if (std::find(names.begin(), names.end(), given.name) != names.end()) continue;
    const auto named_so =
        std::find_if(family.dims.begin(), family.dims.end(), [&](const FamilyDim& dim) {
          return std::find(dim.config_keys.begin(), dim.config_keys.end(), given.name) !=
                 dim.config_keys.end();
        });
    const std::string offer =
        named_so == family.dims.end()
            ? did_you_mean(given.name, names)
            : fmt::format("; did you mean '{}' (config key {})?", named_so->name, given.name);
    throw InputError(fmt::format("{}: family '{}' has no dim '{}'; it has {}{}", given.option,
                                 family.name, given.name, join_names(names), offer));
  }
}

// Whether a default's value is of the dim's type. A size or factor may be zero: "there is none".
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
      return (value.kind == ValueKind::kInteger && value.integer >= 0) ||
             (value.kind == ValueKind::kNumber && value.number >= 0.0);
    case DimType::kText:
      return value.kind == ValueKind::kText;
    case DimType::kDerived:
      return true;
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
      return "a number from 0";
    case DimType::kText:
      return "a text in quotes";
    case DimType::kDerived:
      return "a value";
  }
  CAIRN_CHECK(false, "unknown dim type");
}

void refuse_unknown_dims(const Family& family, const DimSource& source) {
  std::vector<std::string> names = given_dims(family);
  for (const PerLayerDim& dim : family.per_layer) names.push_back(dim.name);
  for (const Entry& entry : source.mapping->entries) {
    if (std::find(names.begin(), names.end(), entry.key) != names.end()) continue;
    fail_at(*source.document, entry.key_position,
            fmt::format("family '{}' has no dim '{}'; it has {}{}", family.name, entry.key,
                        join_names(names), did_you_mean(entry.key, names)));
  }
}

// Gives every dim of a family its value, one after another.
class Resolution {
 public:
  Resolution(const Family& family, const std::vector<DimSource>& sources,
             const std::vector<DimOverride>& overrides)
      : family_(family), sources_(sources), overrides_(overrides), index_(sources) {}

  std::vector<ResolvedDim> run() {
    std::vector<ResolvedDim> dims;
    for (const FamilyDim& dim : family_.dims) {
      dims.push_back(resolve(dim));
      known_.values[dim.name] = dims.back().value;
    }
    return dims;
  }

 private:
  const DimOverride* override_of(const std::string& name) const {
    const auto given = std::find_if(overrides_.begin(), overrides_.end(),
                                    [&](const DimOverride& o) { return o.name == name; });
    return given == overrides_.end() ? nullptr : &*given;
  }

  ResolvedDim resolve(const FamilyDim& dim) const {
    ResolvedDim resolved{.name = dim.name, .type = dim.type};
    const auto set = [&](DimOrigin origin, std::string text, Value value) {
      resolved.origin = origin;
      resolved.origin_text = std::move(text);
      resolved.value = std::move(value);
      return std::move(resolved);
    };
    if (dim.type == DimType::kDerived) {
      return set(DimOrigin::kDerived, dim.default_value->expression.text,
                 computed(dim, *dim.default_value));
    }
    if (const DimOverride* given = override_of(dim.name)) {
      return set(DimOrigin::kOption, given->option, parse_override(dim, *given));
    }
    const FoundValue found = index_.find(dim.name, dim.config_keys);
    if (found.node != nullptr) return set(DimOrigin::kFile, found.key, read_value(dim, found));
    if (dim.null_value && index_.is_null(dim.name, dim.config_keys)) {
      return set(DimOrigin::kFile, "null", computed(dim, *dim.null_value));
    }
    if (dim.default_value) {
      return set(DimOrigin::kDefault, dim.default_value->expression.text,
                 computed(dim, *dim.default_value));
    }
    index_.fail_missing(dim.name, dim.config_keys, family_.name,
                        fmt::format("; or give it: --set {}=...", dim.name));
  }

  // A default that cannot be computed is a fault of the values it is computed from, where the user
  // gave some, else of the family.
  Value computed(const FamilyDim& dim, const PlacedExpression& placed) const {
    try {
      Value value = evaluate(placed.expression, known_);
      if (is_of_type(value, dim.type)) return value;
      fail_computing(dim, placed, placed.node->position,
                     fmt::format("expected {}, found {}", type_text(dim.type), spell(value)));
    } catch (const ExpressionError& error) {
      fail_computing(dim, placed, position_within(*placed.document, *placed.node, error.offset()),
                     error.what());
    }
  }

  [[noreturn]] void fail_computing(const FamilyDim& dim, const PlacedExpression& placed,
                                   Position position, const std::string& message) const {
    const std::string what =
        fmt::format("dim '{}' is {}: {}", dim.name, placed.expression.text, message);
    for (const std::string& name : placed.expression.names) {
      const DimOverride* const given = override_of(name);
      if (given != nullptr) throw InputError(fmt::format("{}: {}", given->option, what));
    }
    const std::optional<DimPlace> place = place_of_dims(family_, sources_, placed.expression.names);
    if (place) fail_at(*place->document, place->position, what);
    fail_at(*placed.document, position,
            fmt::format("dim '{}': its default: {}", dim.name, message));
  }

  const Family& family_;
  const std::vector<DimSource>& sources_;
  const std::vector<DimOverride>& overrides_;
  ConfigIndex index_;
  Scope known_ = {};
};

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
  return Resolution(family, sources, overrides).run();
}

}  // namespace cairn
