#include "models/json_escapes.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdint>

namespace cairn {
namespace {

constexpr std::size_t kPairBytes = 12;  // "\ud83d\ude00"
constexpr int kPairShrinkBytes = 2;     // to "\U0001f600"

// The value of the \uXXXX escape at `offset`, or 0.
std::uint32_t escape_at(std::string_view text, std::size_t offset) {
  if (offset + 6 > text.size() || text[offset] != '\\' || text[offset + 1] != 'u') return 0;
  std::uint32_t value = 0;
  const char* begin = text.data() + offset + 2;
  const auto result = std::from_chars(begin, begin + 4, value, 16);
  return result.ptr == begin + 4 ? value : 0;
}

}  // namespace

JsonEscapes join_json_surrogates(std::string_view text) {
  JsonEscapes escapes;
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos || (text[first] != '{' && text[first] != '[')) return escapes;
  if (text.find("\\ud") == std::string_view::npos && text.find("\\uD") == std::string_view::npos) {
    return escapes;
  }

  std::string& out = escapes.text;
  Position position = {.line = 1, .column = 1};  // of the end of `out`
  bool is_inside_string = false;
  std::size_t offset = 0;
  const auto copy = [&](std::size_t byte_count) {
    for (; byte_count > 0 && offset < text.size(); --byte_count, ++offset) {
      out += text[offset];
      position = text[offset] == '\n'
                     ? Position{.line = position.line + 1, .column = 1}
                     : Position{.line = position.line, .column = position.column + 1};
    }
  };
  while (offset < text.size()) {
    if (text[offset] == '"') is_inside_string = !is_inside_string;
    if (!is_inside_string || text[offset] != '\\') {
      copy(1);
      continue;
    }
    const std::uint32_t high = escape_at(text, offset);
    const std::uint32_t low = escape_at(text, offset + kPairBytes / 2);
    if (high < 0xD800 || high >= 0xDC00 || low < 0xDC00 || low >= 0xE000) {
      copy(2);
      continue;
    }
    out += fmt::format("\\U{:08x}", 0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00));
    offset += kPairBytes;
    position.column += static_cast<int>(kPairBytes) - kPairShrinkBytes;
    escapes.pair_ends.push_back(position);
  }
  escapes.is_changed = !escapes.pair_ends.empty();
  if (!escapes.is_changed) out.clear();
  return escapes;
}

Position position_in_original(const JsonEscapes& escapes, Position position) {
  const auto before = [](Position a, Position b) {
    return a.line != b.line ? a.line < b.line : a.column < b.column;
  };
  const auto& ends = escapes.pair_ends;
  const Position line_begin = {.line = position.line, .column = 0};
  const auto first = std::lower_bound(ends.begin(), ends.end(), line_begin, before);
  const auto last = std::upper_bound(first, ends.end(), position, before);
  position.column += kPairShrinkBytes * static_cast<int>(last - first);
  return position;
}

}  // namespace cairn
