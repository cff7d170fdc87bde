#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <optional>

#include "graph/error.h"
#include "models/gpu_catalogue.h"
#include "models/source_text.h"

namespace cairn {
namespace {

constexpr std::int64_t kMaxBytes = std::int64_t{1} << 50;

struct Unit {
  std::string_view name = {};
  std::int64_t bytes = 1;
};

constexpr std::array<Unit, 9> kUnits = {{{"B", 1},
                                         {"KiB", std::int64_t{1} << 10},
                                         {"MiB", std::int64_t{1} << 20},
                                         {"GiB", std::int64_t{1} << 30},
                                         {"TiB", std::int64_t{1} << 40},
                                         {"kB", 1'000},
                                         {"MB", 1'000'000},
                                         {"GB", 1'000'000'000},
                                         {"TB", 1'000'000'000'000}}};

bool is_digit(char c) { return c >= '0' && c <= '9'; }

bool equal_ignoring_case(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](char x, char y) {
    return std::tolower(static_cast<unsigned char>(x)) ==
           std::tolower(static_cast<unsigned char>(y));
  });
}

std::string_view trimmed(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(' ');
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(' ') + 1 - begin);
}

// "1.5 GiB" is "1", "5" and "GiB".
struct SizeParts {
  std::string_view whole = {};
  std::string_view fraction = {};
  std::string_view unit = {};
};

// Takes digits off the front of `rest`.
std::string_view take_digits(std::string_view& rest) {
  const auto end = std::find_if_not(rest.begin(), rest.end(), is_digit);
  const auto count = static_cast<std::size_t>(end - rest.begin());
  const std::string_view digits = rest.substr(0, count);
  rest.remove_prefix(count);
  return digits;
}

// Empty when the text does not begin with a decimal number.
std::optional<SizeParts> split_size(std::string_view text) {
  SizeParts parts;
  std::string_view rest = trimmed(text);
  parts.whole = take_digits(rest);
  if (parts.whole.empty()) return std::nullopt;
  if (rest.starts_with('.')) {
    rest.remove_prefix(1);
    parts.fraction = take_digits(rest);
    if (parts.fraction.empty()) return std::nullopt;
  }
  parts.unit = trimmed(rest);
  return parts;
}

std::string unit_help(std::string_view unit) {
  for (const char* letter : {"K", "M", "G", "T"}) {
    if (!equal_ignoring_case(unit, letter)) continue;
    return fmt::format("; write {0}iB (a power of 1024) or {0}B (a power of 1000)", letter);
  }
  return {};
}

[[noreturn]] void refuse(const std::string& what, const std::string& expected,
                         std::string_view found, const std::string& help = {}) {
  throw InputError(what + ": expected " + expected + ", found " + in_quotes(found) + help);
}

std::int64_t unit_bytes(const SizeParts& parts, const std::string& text, const std::string& what) {
  if (parts.unit.empty()) {
    if (!parts.fraction.empty()) refuse(what, "a unit such as GiB behind the number", text);
    return 1;
  }
  for (const Unit& unit : kUnits) {
    if (!equal_ignoring_case(unit.name, parts.unit)) continue;
    if (unit.bytes == 1 && !parts.fraction.empty()) refuse(what, "whole bytes", text);
    return unit.bytes;
  }
  std::vector<std::string> names;
  for (const Unit& unit : kUnits) names.emplace_back(unit.name);
  refuse(what, "a size in " + join_names(names), text, unit_help(parts.unit));
}

}  // namespace

std::int64_t parse_bytes(const std::string& text, const std::string& what) {
  if (trimmed(text).starts_with('-')) refuse(what, "a size above zero", text);
  const std::optional<SizeParts> parts = split_size(text);
  if (!parts) refuse(what, "a size such as 24GiB", text);
  const std::int64_t unit = unit_bytes(*parts, text, what);
  std::int64_t whole = 0;
  const auto result =
      std::from_chars(parts->whole.data(), parts->whole.data() + parts->whole.size(), whole);
  if (result.ec != std::errc() || whole > kMaxBytes / unit) refuse(what, "at most 1024TiB", text);
  // 0.d1d2d3 of a unit is (d1 + (d2 + d3 / 10) / 10) / 10 units, and rounding down at each step
  // rounds the whole down once.
  std::int64_t part = 0;
  for (std::size_t i = parts->fraction.size(); i-- > 0;) {
    part = ((parts->fraction[i] - '0') * unit + part) / 10;
  }
  const std::int64_t bytes = whole * unit + part;
  if (bytes == 0) refuse(what, "a size above zero", text);
  if (bytes > kMaxBytes) refuse(what, "at most 1024TiB", text);
  return bytes;
}

}  // namespace cairn
