#include "models/dims.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "graph/checked.h"
#include "graph/error.h"
#include "models/fields.h"

namespace cairn {
namespace {

struct FoundValue {
  const DimSource* source = nullptr;
  const Entry* entry = nullptr;
};

// The first of the dim's keys that some source has, and not as null.
FoundValue find_dim(const FamilyDim& dim, const std::vector<DimSource>& sources) {
  for (const DimSource& source : sources) {
    const std::vector<std::string> own_name = {dim.name};
    for (const std::string& key : source.by_dim_name ? own_name : dim.config_keys) {
      for (const Entry& entry : source.mapping->entries) {
        if (entry.key == key && entry.value.kind != NodeKind::kNull) return {&source, &entry};
      }
    }
  }
  return {};
}

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
    case DimType::kFlag: return integer_value(to_boolean(document, entry.value, what) ? 1 : 0);
    case DimType::kRate: {
      const double rate = to_number(document, entry.value, what);
      if (rate < 0.0 || rate >= 1.0) {
        fail_at(document, entry.value.position,
                fmt::format("{}: expected a rate in [0, 1), found {}", what, rate));
      }
      return number_value(rate);
    }
    case DimType::kText: return text_value(to_text(document, entry.value, what));
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
    case DimType::kSize: return integer_value(parse_size(given));
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
    case DimType::kText: return text_value(given.value);
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

[[noreturn]] void fail_missing(const FamilyDim& dim, const std::vector<DimSource>& sources) {
  const DimSource& first = sources.front();
  const std::string& key = first.by_dim_name ? dim.name : dim.config_keys.front();
  std::vector<std::string> present;
  for (const Entry& entry : first.mapping->entries) present.push_back(entry.key);
  fail_at(*first.document, first.mapping->position,
          fmt::format("missing key '{}'{}", key, did_you_mean(key, present)));
}

void refuse_unknown_dims(const Family& family, const DimSource& source) {
  std::vector<std::string> names;
  for (const FamilyDim& dim : family.dims) names.push_back(dim.name);
  for (const Entry& entry : source.mapping->entries) {
    if (std::find(names.begin(), names.end(), entry.key) != names.end()) continue;
    fail_at(*source.document, entry.key_position,
            fmt::format("family '{}' has no dim '{}'{}", family.name, entry.key,
                        did_you_mean(entry.key, names)));
  }
}

}  // namespace

std::vector<std::pair<std::string, Value>> resolve_dims(const Family& family,
                                                        const std::vector<DimSource>& sources,
                                                        const std::vector<DimOverride>& overrides) {
  check_override_names(family, overrides);
  for (const DimSource& source : sources) {
    if (source.by_dim_name) refuse_unknown_dims(family, source);
  }
  std::vector<std::pair<std::string, Value>> values;
  Scope known;
  for (const FamilyDim& dim : family.dims) {
    Value value;
    const auto given = std::find_if(overrides.begin(), overrides.end(),
                                    [&](const DimOverride& o) { return o.name == dim.name; });
    const FoundValue found = find_dim(dim, sources);
    if (given != overrides.end()) {
      value = parse_override(dim, *given);
    } else if (found.entry != nullptr) {
      value = read_value(dim, *found.source, *found.entry);
    } else if (dim.default_value) {
      try {
        value = evaluate(dim.default_value->expression, known);
      } catch (const ExpressionError& error) {
        throw InputError(fmt::format("dim '{}': its default '{}': {}", dim.name,
                                     dim.default_value->expression.text, error.what()));
      }
    } else {
      fail_missing(dim, sources);
    }
    known.values[dim.name] = value;
    values.emplace_back(dim.name, std::move(value));
  }
  return values;
}

}  // namespace cairn
