#include "models/dims.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <string_view>
#include <unordered_map>

#include "graph/checked.h"
#include "graph/error.h"
#include "models/fields.h"

namespace cairn {
namespace {

struct FoundValue {
  const DimSource* source = nullptr;
  const Entry* entry = nullptr;
};

// The entries of the sources by key, but for nulls.
class SourceIndex {
 public:
  explicit SourceIndex(const std::vector<DimSource>& sources) : sources_(sources) {
    for (const DimSource& source : sources) {
      auto& entries = entries_.emplace_back();
      for (const Entry& entry : source.mapping->entries) {
        if (entry.value.kind != NodeKind::kNull) entries.emplace(entry.key, &entry);
      }
    }
  }

  // The first of the dim's keys that some source has.
  FoundValue find(const FamilyDim& dim) const {
    const std::vector<std::string> own_name = {dim.name};
    for (std::size_t i = 0; i < sources_.size(); ++i) {
      for (const std::string& key : sources_[i].by_dim_name ? own_name : dim.config_keys) {
        const auto found = entries_[i].find(key);
        if (found != entries_[i].end()) return {&sources_[i], found->second};
      }
    }
    return {};
  }

 private:
  const std::vector<DimSource>& sources_;
  std::vector<std::unordered_map<std::string_view, const Entry*>> entries_ = {};
};

Value read_value(const FamilyDim& dim, const DimSource& source, const Entry& entry) {
  const Document& document = *source.document;
  const std::string what = fmt::format("key '{}'", entry.key);
  switch (dim.type) {
    case DimType::kSize: {
      const std::int64_t size = to_integer(document, entry.value, what);
      if (size < 1) {
        fail_at(document, entry.value.position,
                fmt::format("{}: expected a positive integer, found {}", what, size));
      }
      return integer_value(size);
    }
    case DimType::kFlag:
      return integer_value(to_boolean(document, entry.value, what) ? 1 : 0);
    case DimType::kRate: {
      const double rate = to_number(document, entry.value, what);
      if (rate < 0.0 || rate >= 1.0) {
        fail_at(document, entry.value.position,
                fmt::format("{}: expected a rate in [0, 1), found {}", what, rate));
      }
      return number_value(rate);
    }
    case DimType::kText:
      return text_value(to_text(document, entry.value, what));
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
    case DimType::kText:
      return "a text in quotes";
  }
  CAIRN_CHECK(false, "unknown dim type");
}

// A default that cannot be computed is a fault of the values it is computed from, where the user
// gave some, else of the family.
Value default_value(const Family& family, const FamilyDim& dim, const Scope& known,
                    const std::vector<DimSource>& sources) {
  const Document& document = *family.document;
  const PlacedExpression& placed = *dim.default_value;
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

[[noreturn]] void fail_missing(const Family& family, const FamilyDim& dim,
                               const std::vector<DimSource>& sources) {
  const DimSource& first = sources.front();
  const std::string& key = first.by_dim_name ? dim.name : dim.config_keys.front();
  std::vector<std::string> present;
  for (const Entry& entry : first.mapping->entries) {
    if (entry.key == key) {
      fail_at(*first.document, entry.key_position,
              fmt::format("key '{}': expected a value, found nothing", key));
    }
    present.push_back(entry.key);
  }
  const std::string found = nearest_name(key, present);
  fail_at(*first.document, first.mapping->position,
          fmt::format("missing key '{}', which family '{}' needs{}", key, family.name,
                      found.empty() ? "" : ", found " + in_quotes(found)));
}

void refuse_unknown_dims(const Family& family, const DimSource& source) {
  std::vector<std::string> names;
  for (const FamilyDim& dim : family.dims) names.push_back(dim.name);
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
  const SourceIndex index(sources);
  std::optional<DimPlace> place;
  for (const std::string& name : names) {
    for (const FamilyDim& dim : family.dims) {
      if (dim.name != name) continue;
      const FoundValue found = index.find(dim);
      if (found.entry == nullptr) continue;
      place = {.document = found.source->document, .position = found.entry->value.position};
    }
  }
  return place;
}

std::vector<std::pair<std::string, Value>> resolve_dims(const Family& family,
                                                        const std::vector<DimSource>& sources,
                                                        const std::vector<DimOverride>& overrides) {
  check_override_names(family, overrides);
  for (const DimSource& source : sources) {
    if (source.by_dim_name) refuse_unknown_dims(family, source);
  }
  std::vector<std::pair<std::string, Value>> values;
  const SourceIndex index(sources);
  Scope known;
  for (const FamilyDim& dim : family.dims) {
    Value value;
    const auto given = std::find_if(overrides.begin(), overrides.end(),
                                    [&](const DimOverride& o) { return o.name == dim.name; });
    const FoundValue found = index.find(dim);
    if (given != overrides.end()) {
      value = parse_override(dim, *given);
    } else if (found.entry != nullptr) {
      value = read_value(dim, *found.source, *found.entry);
    } else if (dim.default_value) {
      value = default_value(family, dim, known, sources);
    } else {
      fail_missing(family, dim, sources);
    }
    known.values[dim.name] = value;
    values.emplace_back(dim.name, std::move(value));
  }
  return values;
}

}  // namespace cairn
